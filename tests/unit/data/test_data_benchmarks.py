"""The official layouts: what is read from them, what is refused, and the counts of the real files."""

import json
from collections import Counter

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.flickr8k import read_captions, read_image_list
from suisei.data.splits import group_of, split_by_group
from suisei.errors import ConfigError, DataError

HEADER = "imgid,src,mt,ref,score\n"


@pytest.fixture
def flickr8k(tmp_path):
    """Three images with five captions each, and a few ratings."""
    text = tmp_path / "Flickr8k_text"
    text.mkdir()
    lines = [f"{name}.jpg#{number}\tcaption {number} of {name} .\n" for name in "abc" for number in range(5)]
    lines.append("d.jpg.1#0\tan image that is not in the archive .\n")
    (text / "Flickr8k.token.txt").write_text("".join(lines))
    (text / "ExpertAnnotations.txt").write_text(
        "a.jpg\tb.jpg#2\t1\t2\t4\na.jpg\ta.jpg#2\t4\t4\t4\nb.jpg\tc.jpg#2\t1\t1\t1\n"
    )
    (text / "CrowdFlowerAnnotations.txt").write_text(
        "a.jpg\tb.jpg#2\t0.333333333333333\t1\t2\na.jpg\ta.jpg#2\t1\t3\t0\nb.jpg\tc.jpg#2\t0\t0\t4\n"
    )
    (text / "Flickr_8k.devImages.txt").write_text("a.jpg\nb.jpg\n")
    return tmp_path


def add_images(root, names="abc", folder="Flicker8k_Dataset"):
    (root / folder).mkdir()
    for name in names:
        (root / folder / f"{name}.jpg").write_bytes(b"x")


def test_every_entry_says_what_it_is_and_where_to_get_it():
    rated = ["scenes", "shichimi", "pfn-pic-gen", "flickr8k-expert", "flickr8k-cf", "composite", "polaris"]
    rated += ["nebula", "thumb", "flickr8k-expert-all", "capeval1k", "longcap-arena", "jsts", "vatex-eval"]
    compared = ["pascal-50s", "abstract-50s", "iiw-400", "foil", "nocaps-foil", "hat", "sugarcrepe", "valse"]
    assert list(BENCHMARKS) == [*rated, *compared, "activitynet-foil"]
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert benchmark.summary
        assert name == "scenes" or "https://" in benchmark.source
        assert benchmark.rating_scale[0] < benchmark.rating_scale[1]


def test_expert_ratings(flickr8k):
    add_images(flickr8k)
    first, second = BENCHMARKS["flickr8k-expert"].read(flickr8k)  # the image's own caption is left out
    assert first.candidate == "caption 2 of b ."
    assert first.references == tuple(f"caption {number} of a ." for number in range(5))
    assert (first.rating.values, first.rating.low, first.rating.high) == ((1.0, 2.0, 4.0), 1, 4)
    assert (first.group, first.id, first.language) == ("a.jpg", "a.jpg/b.jpg#2", "en")
    assert first.image == flickr8k / "Flicker8k_Dataset" / "a.jpg"
    assert second.group == "b.jpg"


def test_expert_ratings_with_those_of_an_image_s_own_caption(flickr8k):
    whole = BENCHMARKS["flickr8k-expert-all"].read(flickr8k)
    assert [sample.candidate in sample.references for sample in whole] == [False, True, False]
    assert [sample for sample in whole if sample.id != "a.jpg/a.jpg#2"] == BENCHMARKS["flickr8k-expert"].read(
        flickr8k
    )


def test_crowd_votes(flickr8k):
    add_images(flickr8k, folder="Flickr8k_Dataset")
    samples = BENCHMARKS["flickr8k-cf"].read(flickr8k)
    assert [sorted(sample.rating.values) for sample in samples] == [[0, 0, 1], [1, 1, 1], [0, 0, 0, 0]]
    assert samples[1].references == tuple(f"caption {number} of a ." for number in (0, 1, 3, 4))
    assert samples[1].candidate == "caption 2 of a ."


@pytest.mark.parametrize("name", ["flickr8k-expert", "flickr8k-cf"])
def test_a_caption_that_is_missing_lets_no_other_pass_for_it(flickr8k, name):
    path = flickr8k / "Flickr8k_text" / "Flickr8k.token.txt"
    text = path.read_text()
    path.write_text(text.replace("b.jpg#1\tcaption 1 of b .\n", ""))
    with pytest.raises(DataError, match=r"token\.txt: b\.jpg has no caption 1, but later ones; copy"):
        BENCHMARKS[name].read(flickr8k, on_error="skip")
    path.write_bytes(text.replace("of b .\nb.jpg#1", "of b .\rb.jpg#1").encode())
    with pytest.raises(DataError, match=r"token\.txt, row 6: a carriage return \(CR\) within the line"):
        BENCHMARKS[name].read(flickr8k, on_error="skip")


def test_images_absent_altogether_or_one_of_them(flickr8k):
    read = BENCHMARKS["flickr8k-expert"].read
    assert {sample.image for sample in read(flickr8k)} == {None}
    add_images(flickr8k, "a")
    with pytest.raises(
        DataError, match=r"ExpertAnnotations.txt, row 3: the image file .*b\.jpg is not there"
    ):
        read(flickr8k)
    skipped = []
    assert len(read(flickr8k, on_error="skip", skipped=skipped)) == len(skipped) == 1
    add_images(flickr8k, folder="elsewhere")
    assert read(flickr8k, images=flickr8k / "elsewhere")[1].image == flickr8k / "elsewhere" / "b.jpg"
    with pytest.raises(DataError, match="no such image folder"):
        read(flickr8k, images=flickr8k / "nowhere")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.jpg\tc.jpg#2\t0\t0", "4 fields where there should be 5"),
        ("a.jpg\tc.jpg#2\t0.5\t0\t3", "share of yes votes is '0.5', but 0 of 3"),
        ("a.jpg\tc.jpg#2\tnan\t0\t3", "share of yes votes"),
        ("a.jpg\tc.jpg#2\t0\t0\t0", "0 yes and 0 no votes"),
        ("a.jpg\tc.jpg#2\t0\t-1\t3", "number of yes votes must be a whole number, got '-1'"),
        ("a.jpg\tc.jpg#2\t0\t0\t99999999", "no votes; expected 1 to 100"),
        ("x.jpg\tc.jpg#2\t0\t0\t3", "image 'x.jpg' has no captions"),
        ("a.jpg\tc.jpg#7\t0\t0\t3", "caption 'c.jpg#7' is not in"),
        ("a.jpg\tc.jpg\t0\t0\t3", "has no captions|is not in"),
        ("a.jpg\tb.jpg#2\t0\t0\t3", "occurs twice"),
    ],
)
def test_a_damaged_crowd_row_is_reported_and_costs_one_row(flickr8k, line, message):
    with (flickr8k / "Flickr8k_text" / "CrowdFlowerAnnotations.txt").open("a") as stream:
        stream.write(line + "\nc.jpg\tb.jpg#2\t0\t0\t3\n")
    read = BENCHMARKS["flickr8k-cf"].read
    with pytest.raises(DataError, match=f"CrowdFlowerAnnotations.txt, row 4: .*({message})"):
        read(flickr8k)
    skipped = []
    assert len(read(flickr8k, on_error="skip", skipped=skipped)) == 4
    assert len(skipped) == 1


def test_an_expert_rating_out_of_scale(flickr8k):
    (flickr8k / "Flickr8k_text" / "ExpertAnnotations.txt").write_text("a.jpg\tb.jpg#2\t1\t2\t5\n")
    with pytest.raises(DataError, match="row 1: rating 5 is outside the scale 1 to 4"):
        BENCHMARKS["flickr8k-expert"].read(flickr8k)


def test_captions_and_official_parts(flickr8k):
    captions = read_captions(flickr8k)
    assert len(captions) == 4
    assert captions["c.jpg"][4] == "caption 4 of c ."
    assert read_image_list(flickr8k, "dev") == ("a.jpg", "b.jpg")
    with pytest.raises(ConfigError, match="expected train, dev, test"):
        read_image_list(flickr8k, "valid")
    with (flickr8k / "Flickr8k_text" / "Flickr8k.token.txt").open("a") as stream:
        stream.write("e.jpg no tab\n")
    with pytest.raises(DataError, match="row 17: expected IMAGE#NUMBER, a tab and a caption"):
        read_captions(flickr8k)


@pytest.mark.parametrize(
    ("name", "looked_for"),
    [
        ("shichimi", "looked for shichimi_dev.csv or one .csv with the columns"),
        ("flickr8k-expert", "has no Flickr8k_text/"),
        ("flickr8k-cf", "has no Flickr8k_text/"),
        ("jsts", "has no train-v1.3.json"),
    ],
)
def test_a_wrong_root_says_what_was_looked_for_and_where_to_get_it(tmp_path, name, looked_for):
    benchmark = BENCHMARKS[name]
    with pytest.raises(DataError, match=f"{looked_for}.*https://"):
        benchmark.read(tmp_path)
    with pytest.raises(DataError, match=r"there is no such .*https://"):
        benchmark.read(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"pass --root DIR.*https://"):
        benchmark.read()


def test_benchmarks_without_images_take_none(tmp_path):
    for name in ("shichimi", "jsts"):
        with pytest.raises(ConfigError, match=f"{name} has no image files"):
            BENCHMARKS[name].read(tmp_path, images=tmp_path)


def test_shichimi_by_folder_by_file_and_with_another_name(tmp_path):
    read = BENCHMARKS["shichimi"].read
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    full = tmp_path / "full.csv"
    full.write_text(HEADER + "7,参照一,候補,参照二,4\n", encoding="utf-8")
    sample = read(tmp_path)[0]
    assert (sample.candidate, sample.references, sample.group) == ("候補", ("参照一", "参照二"), "7")
    assert (sample.rating.values, sample.rating.mean, sample.language) == ((4.0,), 0.75, "ja")
    second = tmp_path / "second.csv"
    second.write_text(HEADER + "8,あ,い,う,6\n9,あ,い,う,1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"found full\.csv, second\.csv; give one of them"):
        read(tmp_path)
    with pytest.raises(DataError, match=r"second\.csv, row 1: score 6 is outside the rating scale 1 to 5"):
        read(second)
    assert [sample.group for sample in read(second, on_error="skip")] == ["9"]
    second.rename(tmp_path / "shichimi_dev.csv")
    assert len(read(tmp_path, on_error="skip")) == 1


def jsts_row(number, images, label=2.0, **changes):
    row = {
        "sentence_pair_id": str(number),
        "yjcaptions_id": f"{images}-1-g2",
        "sentence1": "一",
        "sentence2": "二",
    }
    return json.dumps({**row, "label": label, **changes}) + "\n"


def test_jsts_and_pairs_of_two_images_join_their_groups(tmp_path):
    rows = [jsts_row(0, "30"), jsts_row(1, "30_20"), jsts_row(2, "20_100"), jsts_row(3, "5")]
    (tmp_path / "train-v1.3.json").write_text("".join(rows))
    (tmp_path / "valid-v1.3.json").write_text(jsts_row(0, "100", 5))
    samples = BENCHMARKS["jsts"].read(tmp_path)
    assert [sample.group for sample in samples] == ["20", "20", "20", "5", "20"]
    assert [sample.id for sample in samples] == ["train-0", "train-1", "train-2", "train-3", "valid-0"]
    assert (samples[0].candidate, samples[0].references, samples[0].language) == ("二", ("一",), "ja")
    assert (samples[0].rating.mean, samples[4].rating.mean) == (pytest.approx(0.4), 1.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{\n", "not valid JSON"),
        ("[]\n", "expected a JSON object"),
        (jsts_row(1, "x"), "yjcaptions_id must begin with an image number"),
        (jsts_row(1, "1", 6), "rating 6 is outside the scale 0 to 5"),
        (jsts_row(1, "1", "2"), "label must be a number"),
        (jsts_row(1, "1", sentence2=""), "candidate is empty"),
        (jsts_row(0, "1"), "train-0 occurs twice"),
    ],
)
def test_a_damaged_jsts_row_costs_one_row(tmp_path, row, message):
    (tmp_path / "train-v1.3.json").write_text(jsts_row(0, "30") + row)
    (tmp_path / "valid-v1.3.json").write_text(jsts_row(0, "100"))
    read = BENCHMARKS["jsts"].read
    with pytest.raises(DataError, match=f"train-v1.3.json, row 2: .*{message}"):
        read(tmp_path)
    assert len(read(tmp_path, on_error="skip")) == 2


@pytest.mark.realdata
def test_real_shichimi(shared):
    samples = BENCHMARKS["shichimi"].read(shared / "data" / "shichimi")
    assert len(samples) == 11_900
    assert len({sample.group for sample in samples}) == 917
    assert {len(sample.references) for sample in samples} == {2}
    assert Counter(sample.rating.values[0] for sample in samples) == {
        5: 3668,
        3: 2604,
        4: 2571,
        1: 1588,
        2: 1469,
    }


@pytest.mark.realdata
def test_real_expert(shared):
    samples = BENCHMARKS["flickr8k-expert"].read(shared / "data" / "flickr8k")
    assert len(samples) == len({sample.id for sample in samples}) == 5_664
    assert {(len(sample.rating.values), len(sample.references)) for sample in samples} == {(3, 5)}
    assert all(sample.image.is_file() for sample in samples)
    assert not any(sample.candidate in sample.references for sample in samples)


@pytest.mark.realdata
def test_real_expert_with_own_captions(shared):
    samples = BENCHMARKS["flickr8k-expert-all"].read(shared / "data" / "flickr8k")
    assert len(samples) == len({sample.id for sample in samples}) == 5_822
    assert sum(sample.candidate in sample.references for sample in samples) == 158


@pytest.mark.realdata
def test_real_crowd(shared):
    samples = BENCHMARKS["flickr8k-cf"].read(shared / "data" / "flickr8k")
    assert len(samples) == 47_288
    assert {len(sample.references) for sample in samples} == {4}
    assert min(len(sample.rating.values) for sample in samples) == 3


@pytest.mark.realdata
def test_real_captions_and_parts(shared):
    captions = read_captions(shared / "data" / "flickr8k")
    assert sum(map(len, captions.values())) == 40_455
    parts = {part: read_image_list(shared / "data" / "flickr8k", part) for part in ("train", "dev", "test")}
    assert {part: len(names) for part, names in parts.items()} == {
        "train": 5_999,
        "dev": 1_000,
        "test": 1_000,
    }
    assert set().union(*parts.values()) <= set(captions)


@pytest.mark.realdata
def test_real_jsts_and_no_image_on_two_sides(shared):
    root = shared / "data" / "jsts"
    samples = BENCHMARKS["jsts"].read(root)
    assert Counter(sample.id.split("-")[0] for sample in samples) == {"train": 12_451, "valid": 1_457}
    assert max(Counter(sample.group for sample in samples).values()) == 10
    images = []
    for part in ("train", "valid"):
        for line in (root / f"{part}-v1.3.json").read_text(encoding="utf-8").splitlines():
            images.append(json.loads(line)["yjcaptions_id"].split("-")[0].split("_"))
    split = split_by_group(samples)
    sides = [
        {image for p in part for image in images[p]} for part in (split.train, split.validation, split.test)
    ]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    assert len({group_of(sample) for sample in samples}) == 9_491


@pytest.mark.parametrize(
    ("encoding", "message"),
    [("utf-16", "the file is UTF-16"), ("cp932", r"line 1 is in Shift_JIS \(cp932\)")],
)
def test_a_file_in_another_encoding_is_named(tmp_path, encoding, message):
    line = '{"sentence_pair_id": "1", "sentence1": "犬が走る", "sentence2": "いぬがはしる", "label": 1.0}\n'
    for part in ("train", "valid"):
        (tmp_path / f"{part}-v1.3.json").write_bytes(line.encode(encoding))
    with pytest.raises(DataError, match=rf"v1\.3\.json: {message}.*save it as UTF-8"):
        BENCHMARKS["jsts"].read(tmp_path, on_error="skip")
    (tmp_path / "polaris_test.csv").write_bytes(
        "imgid,mt,refs,score\na.jpg,いぬがはしる,['x'],1\n".encode(encoding)
    )
    message = message.replace("line 1", "line 2")
    with pytest.raises(DataError, match=rf"polaris_test\.csv: {message}.*save it as UTF-8"):
        BENCHMARKS["polaris"].read(tmp_path, on_error="skip")
