"""Systems brought together image by image."""

import pytest
from PIL import Image

from suisei.data.system_outputs import load_systems
from suisei.errors import ConfigError, DataError


def captions(systems):
    return {name: [sample.candidate for sample in samples] for name, samples in systems.samples.items()}


def test_result_files_are_joined_by_id_whatever_their_order(save):
    a = save("a.json", {"1": "a one", "2": "a two", "3": "a three"})
    b = save("b.json", [{"image_id": 3, "caption": "b three"}, {"image_id": 1, "caption": "b one"}])
    references = save("refs.json", {"1": ["r"], "2": ["r"], "3": ["r", "s"], "4": ["r"]})
    systems = load_systems([a, f"other={b}"], references=[references])
    assert systems.keys == ("1", "3")
    assert captions(systems) == {"a": ["a one", "a three"], "other": ["b one", "b three"]}
    for samples in systems.samples.values():
        assert [sample.references for sample in samples] == [("r",), ("r", "s")]
        assert [sample.id for sample in samples] == ["1", "3"]
    notes = "\n".join(systems.notes)
    assert "b.json: taken for a COCO result file, 2 images" in notes
    assert "other has no caption for 1 of 3 images (2): left out for all systems" in notes
    assert "references of 1 other image are not used" in notes


def test_images_without_references_are_left_out_and_named(save):
    files = [save(name, {"1": "x", "2": "y", "3": "z"}) for name in ("a.json", "b.json")]
    systems = load_systems(files, references=[save("refs.json", {"1": "r", "3": "r"})])
    assert systems.keys == ("1", "3")
    assert any("no reference for 1 of 3 images (2)" in note for note in systems.notes)


def test_rows_bring_their_own_references(save):
    a = save(
        "a.jsonl", [{"id": "1", "candidate": "x", "references": ["r", "s"]}, {"id": "2", "candidate": "y"}]
    )
    b = save(
        "b.jsonl.gz", [{"id": "2", "candidate": "w", "references": ["t"]}, {"id": "1", "candidate": "v"}]
    )
    systems = load_systems([a, b])
    assert list(systems.samples) == ["a", "b"]
    assert [sample.references for sample in systems.samples["b"]] == [("r", "s"), ("t",)]
    assert "systems are joined by id" in systems.notes
    other = save(
        "c.jsonl", [{"id": "1", "candidate": "x", "references": ["q"]}, {"id": "2", "candidate": "y"}]
    )
    with pytest.raises(DataError, match=r"image '1': a and c have different references.*--references"):
        load_systems([a, other])
    replaced = load_systems([a, other], references=[save("refs.json", {"1": "z", "2": "z"})])
    assert {sample.references for sample in replaced.samples["c"]} == {("z",)}
    assert any("rows are not used" in note for note in replaced.notes)


def test_text_is_joined_line_by_line_and_says_so(save):
    files = [save("a.txt", "x\ny\n"), save("b.txt", "v\nw\n")]
    systems = load_systems(files, references=[save("1.txt", "r\ns\n"), save("2.txt", "t\n\n")])
    assert [sample.references for sample in systems.samples["a"]] == [("r", "t"), ("s",)]
    assert any("line by line" in note for note in systems.notes)
    with pytest.raises(DataError, match=r"differ in rows \(a 2, c 1\)"):
        load_systems([files[0], save("c.txt", "x\n")])
    with pytest.raises(DataError, match="rows were skipped"):
        load_systems([files[0], save("d.txt", "x\n\n")], on_error="skip")


def test_several_captions_of_an_image_by_one_system_are_named(save):
    def rows(*captions):
        return [{"image_id": image, "candidate": text, "references": ["r"]} for image, text in captions]

    once = save("a.jsonl", rows((1, "x"), (2, "y")))
    with pytest.raises(DataError, match=r"b: rows 1 and 2 are both of image '1', so that .*; keep one"):
        load_systems([once, save("b.jsonl", rows((1, "v"), (1, "w"), (2, "z")))])
    with pytest.raises(DataError, match=r"rows 1 and 2 are both of image '1' \(en and ja\)"):
        load_systems([once, save("c.jsonl", rows((1, "a dog"), (1, "犬"), (2, "a cat")))])


def test_image_files_with_several_captions_are_named_and_ids_or_the_same_order_join_them(save, tmp_path):
    for name in "xy":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")

    def rows(images, ids=None):
        return [
            {
                "image": f"{image}.png",
                "candidate": f"c{n}",
                "references": ["r"],
                **({"id": ids[n]} if ids else {}),
            }
            for n, image in enumerate(images)
        ]

    with pytest.raises(
        DataError, match=r"a: rows 1 and 2 are both of image '.*x\.png', so .* every row an id"
    ):
        load_systems([save("a.jsonl", rows("xxy")), save("b.jsonl", rows("xy"))])
    ordered = load_systems([save("a.jsonl", rows("xxy")), save("b.jsonl", rows("xxy"))])
    assert ordered.size == "3 captions of 2 images"
    named = load_systems([save("a.jsonl", rows("xxy", "123")), save("b.jsonl", rows("yx", "31"))])
    assert captions(named) == {"a": ["c0", "c2"], "b": ["c1", "c0"]}
    assert "b lacks 1 of 3 captions (2): left out for all systems" in named.notes
    broken = [*rows("x"), {"candidate": "", "image": "x.png"}, *rows("y")]
    with pytest.raises(DataError, match="skipped, and nothing names each row once and alike in all files"):
        load_systems([save("a.jsonl", broken), save("b.jsonl", rows("xxy"))], on_error="skip")


def test_another_order_is_noticed_where_references_have_no_ids(save):
    a, b = save("a.json", {"1": "x", "2": "y"}), save("b.json", {"2": "y", "1": "x"})
    with pytest.raises(DataError, match="another order: id '2' is row 2 of a and row 1 of b"):
        load_systems([a, b], references=[save("refs.txt", "r\ns\n")])


@pytest.mark.parametrize("spelt", ["e\u0301.jpg é.jpg e.jpg", "7.0 7 1"], ids=["marks", "numbers"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_names_are_joined_however_they_are_spelt(save, form, spelt):
    """As macOS names files, and as pandas writes numbers beside a missing one."""
    decomposed, composed, other = spelt.split()

    def file(name, *ids):
        if form == "json":
            return save(f"{name}.json", [{"image_id": key, "caption": f"{name}{key}"} for key in ids])
        return save(f"{name}.csv", "id,candidate\n" + "".join(f"{key},{name}{key}\n" for key in ids))

    systems = load_systems([file("a", decomposed, other), file("b", other, composed)])
    assert systems.keys == (composed, other)
    assert captions(systems)["b"] == [f"b{composed}", f"b{other}"]
    with pytest.raises(DataError, match=rf"another order: id '{composed}' is row 1 of a and row 2 of c"):
        load_systems(
            [file("a", decomposed, other), file("c", "0", composed)],
            references=[save("refs.txt", "r\ns\n")],
        )
    both = load_systems([file("a", decomposed, composed), file("b", composed, decomposed)])
    assert both.keys == (decomposed, composed)


@pytest.mark.parametrize("form", ["results", "rows"])
def test_files_that_lack_different_images_are_not_joined_line_by_line(save, form):
    """As many captions of images 1 to 3 and of 1, 3 and 4: rows 2 and 3 are of other images."""

    def file(name, *ids):
        if form == "results":
            return save(f"{name}.json", [{"image_id": key, "caption": f"c{key}"} for key in ids])
        return save(f"{name}.jsonl", [{"id": str(key), "candidate": f"c{key}"} for key in ids])

    references = [save("refs.txt", "r\ns\nt\n")]
    with pytest.raises(DataError, match=r"another order: .* '3' is row 3 of a and row 2 of b"):
        load_systems([file("a", 1, 2, 3), file("b", 1, 3, 4)], references=references)
    assert len(load_systems([file("a", 1, 2, 3), file("c", 1, 2, 4)], references=references).images) == 3


@pytest.mark.parametrize("field", ["image", "image_id"])
def test_rows_that_name_other_images_are_not_joined_line_by_line(save, tmp_path, field):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    twice = [{field: name, "candidate": f"{name} {n}"} for name in ("a.png", "b.png") for n in (1, 2)]
    systems = load_systems([save("x.jsonl", twice), save("same.jsonl", twice)])
    assert len(systems.images) == 4
    other = save("other.jsonl", twice[2:] + twice[:2])  # no name tells two captions of an image apart
    with pytest.raises(DataError, match=r"row '1' is \w+ 'a.png' in x and \w+ 'b.png' in other, so that"):
        load_systems([str(tmp_path / "x.jsonl"), other])


@pytest.mark.parametrize("field", ["image", "image_id"])
def test_captions_of_one_image_have_its_name_whatever_they_are_joined_by(save, tmp_path, field):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    rows = [{field: name, "candidate": f"{name} {n}"} for name in ("a.png", "b.png") for n in (1, 2)]
    with_ids = [{**row, "id": f"row {n}"} for n, row in enumerate(rows)]
    nameless = [{"id": row["id"], "candidate": "x"} for row in with_ids]
    for first, second in ((rows, rows), (with_ids, with_ids), (nameless, with_ids)):
        systems = load_systems([save("x.jsonl", first), save("y.jsonl", second)])
        first_image, same, other_image, same_too = systems.images
        assert (first_image, other_image) == (same, same_too)
        assert systems.size == "4 captions of 2 images"
    alone = load_systems([save("x.jsonl", nameless), save("y.jsonl", nameless)])
    assert alone.size == "4 images"
    with pytest.raises(DataError, match="1 image in common"):
        load_systems([save("x.jsonl", with_ids[:2]), save("y.jsonl", with_ids[:2])])


def test_ids_that_number_the_rows_of_each_file_join_no_other_images(save, tmp_path):
    for name in ("a.png", "b.png", "1.png", "2.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)

    def numbered(file, *images):
        rows = [{"id": n, "image": image, "candidate": f"{file} {image}"} for n, image in enumerate(images)]
        return save(f"{file}.jsonl", rows)

    x, y = numbered("x", "a.png", "b.png"), numbered("y", "b.png", "a.png")
    systems = load_systems([x, y])
    assert captions(systems) == {"x": ["x a.png", "x b.png"], "y": ["y a.png", "y b.png"]}
    assert "systems are joined by image" in systems.notes
    with pytest.raises(DataError, match=r"'0' is image 'a.png' in x and image 'b.png' in y; give the rows"):
        load_systems([x, y], references=[save("refs.json", {"0": ["r"], "1": ["r"]})])
    copies = load_systems([x, numbered("z", "1.png", "2.png")])  # the same images by other names
    assert copies.keys == ("0", "1")


def test_rows_are_joined_with_references_by_their_images_before_their_own_numbers(save, tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)

    def rows(*images, **more):
        return [{"id": n, "image": image, **more} for n, image in enumerate(images, 1)]

    references = [{**row, "captions": [f"of {row['image']}"]} for row in rows("a.png", "b.png", "c.png")]
    given = save("refs.jsonl", references)
    files = [save(name, rows("c.png", "a.png", candidate="x")) for name in ("x.jsonl", "y.jsonl")]
    systems = load_systems(files, references=[given])
    found = {sample.image.name: sample.references for sample in systems.samples["x"]}
    assert found == {"a.png": ("of a.png",), "c.png": ("of c.png",)}
    assert "x: joined with the references by image" in systems.notes
    twice = save("twice.jsonl", [*references, {"id": 4, "image": "a.png", "captions": ["again"]}])
    systems = load_systems(files, references=[twice])  # a.png is of two rows
    found = {sample.image.name: sample.references for sample in systems.samples["x"]}
    assert found == {"a.png": ("of a.png", "again"), "c.png": ("of c.png",)}
    strange = save("strange.jsonl", [{"id": n, "image": "b.png", "candidate": "x"} for n in (1, 3)])
    with pytest.raises(DataError, match=r"'b.png' is said to be image '1', and .*says that it is image '2'"):
        load_systems([files[0], strange], references=[given])


def test_captions_by_image_are_not_joined_by_line_with_rows_that_name_images_otherwise(save, tmp_path):
    for number in (1, 2):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.png")
    a = save("a.json", [{"image_id": 2, "caption": "two"}, {"image_id": 1, "caption": "one"}])
    rows = [{"image": f"{number}.png", "candidate": "b", "references": ["r"]} for number in (1, 2)]
    with pytest.raises(DataError, match=r"a is a file of captions by image, such as '1', .*such as '1.png'"):
        load_systems([a, save("b.jsonl", rows)])


def test_file_names_are_found_in_annotations_and_in_the_folder(save, tmp_path):
    for number in (1, 2):
        Image.new("RGB", (8, 8)).save(tmp_path / f"photo{number}.jpg")
    rows = [{"candidate": f"c{number}", "image": f"photo{number}.jpg"} for number in (1, 2)]
    references = {
        "images": [{"id": number, "file_name": f"photo{number}.jpg"} for number in (1, 2)],
        "annotations": [{"image_id": number, "caption": "r"} for number in (1, 2)],
    }
    files = [save("a.jsonl", rows), save("b.json", {"2": "y", "1": "x"})]
    systems = load_systems(files, references=[save("refs.json", references)], images=str(tmp_path))
    assert captions(systems) == {"a": ["c1", "c2"], "b": ["x", "y"]}
    assert [sample.image.name for sample in systems.samples["b"]] == ["photo1.jpg", "photo2.jpg"]
    assert any("a: joined with the references by image" in note for note in systems.notes)


def test_coco_names_of_images_are_tried(save, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "COCO_val2014_000000000001.jpg")
    files = [save(name, {"1": "x", "2": "y"}) for name in ("a.json", "b.json")]
    systems = load_systems(files, images=str(tmp_path))
    assert [sample.image is not None for sample in systems.samples["a"]] == [True, False]
    assert any("has no file for 1 of 2 images (" in note for note in systems.notes)
    Image.new("RGB", (8, 8)).save(tmp_path / "2.png")
    systems = load_systems(files, images=str(tmp_path))
    assert [sample.image.suffix for sample in systems.samples["a"]] == [".jpg", ".png"]
    rows = [{"id": id_, "candidate": "x", "group": group} for id_, group in zip("234", "ppq", strict=True)]
    systems = load_systems([save(name, rows) for name in ("c.jsonl", "d.jsonl")], images=str(tmp_path))
    assert any("has no file for 2 of 3 captions (" in note for note in systems.notes)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"no file of image '1' is there; tried 1, 1.jpg, 1.jpeg, 1.png, "):
        load_systems(files, images=str(tmp_path / "none"))


def test_row_numbers_are_no_names_of_images(save, tmp_path):
    for number in (1, 2):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.jpg")
    rows = [{"candidate": "a"}, {"candidate": "b"}]
    with pytest.raises(DataError, match="joined line by line name no images; give every row its image"):
        load_systems([save("a.jsonl", rows), save("b.jsonl", rows)], images=str(tmp_path))
    rows = [{"candidate": "a", "image": "2.jpg"}, {"candidate": "b"}]
    systems = load_systems([save("a.jsonl", rows), save("b.jsonl", rows)], images=str(tmp_path))
    assert [sample.image and sample.image.name for sample in systems.samples["b"]] == ["2.jpg", None]
    assert any("has no file for 1 of 2 images (" in note for note in systems.notes)


def test_systems_without_common_ids(save):
    a, b = save("a.json", {"1": "x", "2": "y"}), save("b.json", {"2": "x", "3": "y", "4": "z"})
    with pytest.raises(DataError, match="1 image in common"):
        load_systems([a, b])
    with pytest.raises(DataError, match=r"0 images in common \(the first is '1' in a, '8' in c\)"):
        load_systems([a, save("c.json", {"8": "x", "9": "y"})])  # as many rows, but of other images
    with pytest.raises(
        DataError, match=r"none of its 2 rows has an image .* ids such as 'p'; .*id such as '1'"
    ):
        load_systems([a, b], references=[save("refs.json", {"p": "r", "q": "r"})])


def test_names(save, tmp_path):
    path = save("a.json", {"1": "x", "2": "y"})
    with pytest.raises(ConfigError, match=r"two systems are called 'a'; name them"):
        load_systems([path, path])
    assert list(load_systems([path, f" b ={path}"]).samples) == ["a", "b"]
    with pytest.raises(ConfigError, match=r"two systems are called 'b'"):
        load_systems([f" b={path}", f"b={path}"])
    odd = save("c=d.json", {"1": "x", "2": "y"})
    assert list(load_systems([path, odd]).samples) == ["a", "c=d"]
    with pytest.raises(ConfigError, match=r"unknown file format '.xml'; expected .json"):
        load_systems([path, f"b={tmp_path}/b.xml"])
    with pytest.raises(ConfigError, match="must be FILE or NAME=FILE"):
        load_systems([path, "="])


def test_bad_rows_of_rows_files(save):
    a = save(
        "a.jsonl",
        [{"id": "1", "candidate": "x"}, {"id": "2", "candidate": ""}, {"id": "3", "candidate": "z"}],
    )
    b = save("b.json", {"1": "x", "2": "y", "3": "z"})
    with pytest.raises(DataError, match=r"a.jsonl, row 2"):
        load_systems([a, b])
    systems = load_systems([a, b], on_error="skip")
    assert systems.keys == ("1", "3")
    assert any("1 bad row skipped" in note for note in systems.notes)


@pytest.mark.parametrize("said", ["None", "['a', 'dog']"])
def test_a_result_that_is_no_caption_is_named_and_can_be_skipped(save, said):
    rows = [{"image_id": n, "caption": f"a {n}"} for n in (1, 2, 3)]
    files = save("a.json", [*rows[:2], {"image_id": 3, "caption": said}]), save("b.json", rows)
    with pytest.raises(DataError, match=r"a\.json, row 3: the caption of image 3 is "):
        load_systems(files)
    systems = load_systems(files, on_error="skip")
    assert systems.keys == ("1", "2")
    assert any("1 bad row skipped" in note for note in systems.notes)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_rows_with_references_are_more_than_a_result_file(save, name):
    rows = [{"image_id": n, "caption": f"a {n}", "references": [f"r {n}"]} for n in (1, 2)]
    other = save("b.jsonl", [{"image_id": n, "caption": f"b {n}"} for n in (1, 2)])
    systems = load_systems([save(name, rows), other], references=[])
    assert [sample.references for sample in systems.samples["b"]] == [("r 1",), ("r 2",)]


def test_a_scale_of_ratings_is_not_read(save):
    rows = "id,caption,MOS,rating_scale\n1,a dog,4,1-5\n2,a cat,2,1-5\n"
    systems = load_systems([save(f"{name}.csv", rows) for name in "ab"])
    assert captions(systems) == {name: ["a dog", "a cat"] for name in "ab"}


def test_rows_of_other_names_in_any_form_and_ratings_of_any_scale(save):
    a = save("a.jsonl.gz", [{"image_id": n, "prediction": f"a {n}", "rating": 4, "url": "x"} for n in (1, 2)])
    b = save("b.json", [{"image_id": n, "what": f"b {n}", "refs": [f"r {n}"]} for n in (2, 1)])
    c = save("c.csv", "image_id;caption\r\n1;c 1\r\n2;c 2\r\n")
    systems = load_systems([a, c])
    assert captions(systems) == {"a": ["a 1", "a 2"], "c": ["c 1", "c 2"]}
    told = "\n".join(systems.notes)
    assert "'prediction' for the candidate" in told
    assert "ignored: 'url'" in told
    assert "columns separated by semicolons" in told
    with pytest.raises(DataError, match="no column 'candidate'; the columns are image_id, what, refs"):
        load_systems([b, c])
    d = save("d.json", [{"image_id": n, "what": f"d {n}"} for n in (1, 2)])
    systems = load_systems([b, d], columns={"candidate": "what"})
    assert captions(systems) == {"b": ["b 2", "b 1"], "d": ["d 2", "d 1"]}
    assert [sample.references for sample in systems.samples["d"]] == [("r 2",), ("r 1",)]
