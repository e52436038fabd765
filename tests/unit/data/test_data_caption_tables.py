"""References of images in tables, and in lines of numbered captions."""

import gzip

import pytest

from suisei.data.coco import read_references
from suisei.data.formats import read_samples
from suisei.data.system_outputs import load_systems
from suisei.errors import DataError

IMAGES = {"1.jpg": ("a child, climbing", "a girl"), "2.jpg": ("two dogs",)}
TOKENS = "1.jpg#0\ta child, climbing\n1.jpg#1\ta girl\n\n2.jpg#0\ttwo dogs\n"
TABLES = {
    "refs.csv": 'image,caption\n1.jpg,"a child, climbing"\n1.jpg,a girl\n2.jpg,two dogs\n',
    "refs.tsv": "image_id\treference\tx\n1.jpg\ta child, climbing\t\n1.jpg\ta girl\t\n2.jpg\ttwo dogs\t1\n",
    "semicolons.csv": "\ufefffile_name;ref\r\n1.jpg;a child, climbing\r\n1.jpg;a girl\r\n2.jpg;two dogs\r\n",
    "one_each.csv": 'image_id,ref,Reference 10,ref_2\n1.jpg,,a girl,"a child, climbing"\n2.jpg,two dogs, ,\n',
    "one_each.jsonl": '{"image": "1.jpg", "reference_2": "a girl", "reference_1": "a child, climbing"}\n'
    '{"image": "2.jpg", "reference_1": "two dogs", "reference_2": null, "text": "not read"}\n',
    "token.txt": TOKENS,
    "Flickr8k.token": "\ufeff" + TOKENS.replace("\n", "\r\n"),
}


@pytest.fixture
def save(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


@pytest.mark.parametrize("name", TABLES)
def test_references_of_images_are_read_from_tables(save, name):
    found = read_references([save(name, TABLES[name])])
    assert (found.captions, found.by_line) == (IMAGES, False)


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_systems_are_joined_with_them(save, name):
    path = save(name, TABLES[name])
    rows = save(
        "rows.jsonl",
        '{"image_id": "2.jpg", "caption": "dogs"}\n{"image_id": "1.jpg", "caption": "a child"}\n',
    )
    notes = []
    found = read_samples(rows, references=[path], note=notes.append)
    assert [sample.references for sample in found] == [IMAGES["2.jpg"], IMAGES["1.jpg"]]
    assert any("taken for a" in note and "2 images; " in note for note in notes), notes
    systems = load_systems([str(rows), f"same={rows}"], references=[str(path)])
    assert {sample.references for sample in systems.samples["rows"]} == set(IMAGES.values())


def test_references_one_each_are_of_their_image_in_order_without_one(save):
    rows = '{"1.jpg": {"ref2": "a girl", "ref1": "a child, climbing"}, "2.jpg": {"ref1": "two dogs"}}'
    assert read_references([save("refs.json", rows)]).captions == IMAGES
    first = '{"7": {"caption": "a dog", "reference_1": "x", "reference_2": "y"}}'
    assert read_references([save("refs.json", first)]).captions == {"7": ("a dog",)}
    found = read_references([save("refs.csv", "reference_2,reference_1\ntwo,one\n,a\n")])
    assert (found.captions, found.by_line) == ({"1": ("one", "two"), "2": ("a",)}, True)
    with pytest.raises(DataError, match=r"refs\.csv, row 1: image '1' has an empty list of captions"):
        read_references([save("refs.csv", 'id,reference_2,reference_1\n1,,""\n')])


def test_parquet_may_hold_a_list_of_references_a_row(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {"image": list(IMAGES), "captions": list(map(list, IMAGES.values())), "width": [1, 2]}
    parquet.write_table(pyarrow.table(table), tmp_path / "refs.parquet")
    assert read_references([tmp_path / "refs.parquet"]).captions == IMAGES
    first, second = zip(*(map(str, (*own, "")[:2]) for own in IMAGES.values()), strict=True)
    table = {"image": list(IMAGES), "reference_2": second, "width": [1, 2], "reference_1": first}
    parquet.write_table(pyarrow.table(table), tmp_path / "refs.parquet")
    assert read_references([tmp_path / "refs.parquet"]).captions == IMAGES


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_ids_that_number_rows_are_not_those_of_images(tmp_path, save, kind):
    """Columns that say nothing of captions or images may hold what Python has no object for."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"id": [1, 2], "file_name": ["2.jpg", "1.jpg"], "references": ["two dogs", "a girl"]}
    )
    path = tmp_path / f"refs.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        far = pyarrow.array([17_000_000, 0], pyarrow.date32())  # the year 48,514
        table = pyarrow.Table.from_pandas(frame).append_column("taken", far)
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    assert read_references([path]).row_files == {"2.jpg": {"1"}, "1.jpg": {"2"}}
    rows = save("rows.jsonl", '{"id": "1", "image": "1.jpg", "candidate": "a child"}\n')
    (tmp_path / "1.jpg").touch()
    (sample,) = read_samples(rows, references=[path], note=str)
    assert sample.references == ("a girl",)


def test_a_table_may_be_compressed(tmp_path):
    with gzip.open(tmp_path / "refs.csv.gz", "wt") as stream:
        stream.write(TABLES["refs.csv"])
    assert read_references([tmp_path / "refs.csv.gz"]).captions == IMAGES


def test_a_cell_may_hold_a_list_and_a_whole_number_its_zero(save):
    path = save("refs.csv", 'image_id,captions\n7.0,"[""a dog"", ""dogs""]"\n8,a cat\n')
    assert read_references([path]).captions == {"7": ("a dog", "dogs"), "8": ("a cat",)}


def test_a_table_that_names_no_images_is_joined_in_its_order(save):
    found = read_references([save("refs.csv", "reference\na dog\ntwo dogs\n")])
    assert (found.captions, found.by_line) == ({"1": ("a dog",), "2": ("two dogs",)}, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,caption\n1.jpg,a dog, running\n", r"refs\.csv, row 1: 3 fields where the header has 2"),
        ("image,caption\n1.jpg,a dog\n,two dogs\n", r"refs\.csv, row 2: the image's id must be .*, got ''"),
        ("image,caption\n1.jpg,\n", r"refs\.csv, row 1: .*empty"),
        ("image,words\n1.jpg,a dog\n", r"refs\.csv, row 1: no field holds captions, .*: 'image', 'words'"),
        ("image,caption,caption\n1.jpg,a,b\n", r"refs\.csv, header: a column name occurs twice"),
        ('image,references\n1.jpg,"[""a"", b]"\n', r"refs\.csv, row 1: references must be a JSON list"),
        ("image,caption\n", r"refs\.csv: "),
    ],
)
def test_what_is_wrong_with_a_table_is_told(save, text, message):
    with pytest.raises(DataError, match=message):
        read_references([save("refs.csv", text)])


def test_names_of_images_in_numbered_captions_may_have_blanks(save):
    path = save("refs.txt", "my dog 1.jpg#0\ta dog\nmy dog 1.jpg#1\tthe dog\n写真 2.jpg#0\ta cat\n")
    assert read_references([path]).captions == {
        "my dog 1.jpg": ("a dog", "the dog"),
        "写真 2.jpg": ("a cat",),
    }


def test_lines_of_which_some_have_no_key_are_plain_text(save):
    path = save("refs.txt", "1.jpg#0\ta dog\na cat\n")
    assert read_references([path]).captions == {"1": ("1.jpg#0\ta dog",), "2": ("a cat",)}
