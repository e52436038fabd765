"""What is written is read back the same, in every format, and a failed write leaves nothing behind."""

import json
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from suisei.data.formats import read_samples, write_samples
from suisei.data.paths import ANYWHERE
from suisei.data.sample import CaptionSample, Rating
from suisei.data.writers import replacing, replacing_folder
from suisei.errors import ConfigError, DataError

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")

captions = st.one_of(
    st.sampled_from(
        ["猫が、机の上にいる。", 'a "cat", asleep', "two\nlines", "a\r\nb\tc", "'\\'", "\ufeffx", " a "]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).map(lambda text: text + "x"),
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10).filter(str.strip)
ratings = st.tuples(st.floats(-10, 10), st.floats(0.5, 20)).flatmap(
    lambda scale: st.lists(st.floats(scale[0], scale[0] + scale[1]), min_size=1, max_size=4).map(
        lambda values: Rating(tuple(values), scale[0], scale[0] + scale[1])
    )
)


@st.composite
def sample_lists(draw):
    count = draw(st.integers(1, 5))
    ids = draw(st.lists(st.none() | names, min_size=count, max_size=count, unique_by=lambda x: x or object()))
    return [
        CaptionSample(
            draw(captions),
            tuple(draw(st.lists(captions, max_size=3))),
            rating=draw(st.none() | ratings),
            language=draw(st.sampled_from([None, "ja", "en"])),
            system=draw(st.none() | names),
            group=draw(st.none() | names),
            id=sample_id,
        )
        for sample_id in ids
    ]


@pytest.mark.parametrize("suffix", FORMATS)
@settings(deadline=None, max_examples=60)
@given(samples=sample_lists())
def test_round_trip(suffix, samples):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"samples{suffix}"
        write_samples(path, samples)
        assert read_samples(path) == samples
        assert [file.name for file in Path(folder).iterdir()] == [path.name]


@pytest.mark.parametrize("group", ["0\r\t", "a\nb\tc", 'a"\tb"\n'])
def test_a_tab_and_a_line_end_in_a_field_of_tsv_are_no_rows_below(tmp_path, group):
    samples = [CaptionSample("猫", group=group), CaptionSample("a\tdog", ("b\n\tc",), group="g")]
    write_samples(tmp_path / "s.tsv", samples)
    assert read_samples(tmp_path / "s.tsv") == samples
    write_samples(tmp_path / "s.tsv", [CaptionSample("a dog", ("a\nb",), group="g")])
    assert '"candidate"' not in (tmp_path / "s.tsv").read_text()


@pytest.mark.parametrize("suffix", FORMATS)
def test_images_inside_the_folder_are_written_relative_to_it(tmp_path, suffix):
    inside, outside = tmp_path / "out" / "images" / "a.png", tmp_path / "b.png"
    inside.parent.mkdir(parents=True)
    for image in (inside, outside):
        image.write_bytes(b"x")
    path = tmp_path / "out" / f"s{suffix}"
    write_samples(path, [CaptionSample("a", image=inside), CaptionSample("b", image=str(outside))])
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    first, second = read_samples(moved / path.name, allowed=ANYWHERE)
    assert first.image == moved / "images" / "a.png"
    assert second.image == outside


def test_jsonl_is_readable_and_leaves_out_what_is_unknown(tmp_path):
    write_samples(tmp_path / "s.jsonl", [CaptionSample("猫", id="1")])
    text = (tmp_path / "s.jsonl").read_text(encoding="utf-8")
    assert "猫" in text
    assert json.loads(text) == {"id": "1", "candidate": "猫", "references": []}


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "s.jsonl"
    write_samples(path, [CaptionSample("old")])
    with pytest.raises(DataError, match="surrogate"):
        write_samples(path, [CaptionSample("new"), CaptionSample("half \ud83d")])
    assert read_samples(path)[0].candidate == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("problem", [OSError("no space left"), KeyboardInterrupt("no time left")])
def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path, monkeypatch, problem):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old.txt").write_text("old")
    rename = Path.rename

    def fails(self, target):
        if target == folder and (self / "new.txt").exists():
            raise problem
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(type(problem), match="left"), replacing_folder(folder) as new:
        (new / "new.txt").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["old.txt"]
    monkeypatch.undo()
    with replacing_folder(folder) as new:
        (new / "new.txt").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["new.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_may_have_the_longest_name_that_there_is(tmp_path):
    with replacing_folder(tmp_path / ("長" * 85)) as new:
        (new / "new.txt").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["長" * 85]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: save_file({"a": np.zeros(5000)}, path),
        lambda path: Tokenizer(WordLevel({str(n): n for n in range(5000)})).save(str(path)),
    ],
)
def test_libraries_in_rust_are_heard_where_nothing_can_be_written(tmp_path, write):
    """Neither says it by an OSError."""

    def write_little(path):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            write(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    with pytest.raises(OSError, match="File too large"), replacing_folder(tmp_path / "model") as new:
        write_little(new / "file")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"expected \.jsonl, \.ndjson, \.csv, \.tsv, \.parquet"):
        write_samples(tmp_path / "s.txt", [CaptionSample("a")])
    with pytest.raises(DataError, match="no samples to write"):
        write_samples(tmp_path / "s.csv", [])
    with pytest.raises(DataError, match="sample 0: the image is in memory"):
        write_samples(tmp_path / "s.csv", [CaptionSample("a", image=Image.new("RGB", (1, 1)))])
    with pytest.raises(DataError, match="cannot be written"):
        write_samples(tmp_path / "gone" / "s.csv", [CaptionSample("a")])


def test_replacing_keeps_the_old_file_when_the_block_fails(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(str(1 / 0))
    with (
        pytest.raises(DataError, match=r"a\.json: cannot be written: No space"),
        replacing(path) as temporary,
    ):
        raise OSError(28, "No space left on device")
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "old"


def test_a_long_name_of_japanese_characters_can_be_written(tmp_path):
    path = tmp_path / f"{'あ' * 80}.json"
    with replacing(path) as temporary:
        temporary.write_text("{}")
    assert path.read_text() == "{}"
