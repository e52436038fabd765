"""``suisei positives join``: training data out of images with captions and what was generated."""

import json

import pytest
from PIL import Image

from suisei.commands import positives
from suisei.data.item_seeds import text_key
from suisei.data.pairs import load_pairs
from suisei.errors import ConfigError
from suisei.pacs.positive_writer import PositiveWriter, Recipe
from tests.unit.commands.positives_runs import captions, rows_of_images, texts, tiny_blip


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    return tiny_blip(tmp_path_factory.mktemp("models") / "tiny-blip")


@pytest.fixture
def data(tmp_path):
    return rows_of_images(tmp_path)


def test_join_writes_training_data(data, blip, tmp_path):
    captions(data, blip, tmp_path / "out", "--limit", "3")
    target = tmp_path / "train.jsonl"
    join = ["join", str(data), "--positives", str(tmp_path / "out"), "--output", str(target)]
    assert positives.main(join) == 0
    pairs = load_pairs(str(target))
    assert [len(pair.generated_captions) for pair in pairs] == [1, 1, 1, 0, 0]
    assert pairs[0].captions == ("caption 0",)


def test_rows_of_images_alone_are_captioned_and_join_says_that_it_leaves_them_out(
    data, blip, tmp_path, capsys
):
    rows = [{"image": "1.png"}, {"image": "0.png", "caption": "a"}, {"caption": "b"}, {"image": "0.png"}]
    path, target = tmp_path / "rows.jsonl", tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert captions(path, blip, tmp_path / "out") == 0
    assert len(texts(tmp_path / "out")) == 2
    join = ["join", str(path), "--positives", str(tmp_path / "out"), "--output", str(target)]
    assert positives.main(join) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "left out: 1 image without captions, 1 row without an image" in told
    assert [pair.image.name for pair in load_pairs(str(target))] == ["0.png"]


def test_captions_of_a_karpathy_split_are_made_and_joined(data, blip, tmp_path):
    images = [
        {"filename": f"{n}.png", "split": "val" if n == 4 else "train", "sentences": [{"raw": f"of {n}"}]}
        for n in range(5)
    ]
    path = tmp_path / "split" / "dataset.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"images": images}))
    source, place = f"{path}:train", ("--images", str(data.parent))
    assert captions(source, blip, tmp_path / "out", *place) == 0
    target = tmp_path / "train.jsonl"
    join = ["join", source, *place, "--positives", str(tmp_path / "out"), "--output", str(target)]
    assert positives.main(join) == 0
    pairs = load_pairs(str(target))
    assert [pair.captions for pair in pairs] == [(f"of {n}",) for n in range(4)]
    assert all(len(pair.generated_captions) == 1 for pair in pairs)


def test_join_makes_one_pair_of_an_image_that_rows_name_in_several_ways(data, blip, tmp_path, monkeypatch):
    captions(data, blip, tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    rows = [{"image": n, "caption": n} for n in ("0.png", str(tmp_path / "0.png"), "link/0.png")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert positives.main(["join", "rows.jsonl", "--positives", "out", "--output", "joined.jsonl"]) == 0
    [pair] = load_pairs("joined.jsonl")
    assert (pair.image, len(pair.captions)) == (tmp_path / "0.png", 3)


def test_join_makes_one_pair_of_copies_of_an_image_and_says_so(data, blip, tmp_path, capsys):
    captions(data, blip, tmp_path / "out")
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    rows = [{"image": f"{n}.png", "caption": f"of {n}"} for n in (0, "copy", 1)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    join = ["join", str(tmp_path / "rows.jsonl"), "--positives", str(tmp_path / "out")]
    assert positives.main([*join, "--output", str(tmp_path / "joined.jsonl")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "2 images of 3 files, copies as one, 2 with a generated caption, 0 generated images" in told
    first, second = load_pairs(str(tmp_path / "joined.jsonl"))
    assert (first.image.name, first.captions) == ("0.png", ("of 0", "of copy"))
    assert (len(first.generated_captions), second.captions) == (1, ("of 1",))


def test_join_keeps_the_positives_that_the_data_has_already(data, blip, tmp_path):
    captions(data, blip, tmp_path / "out")
    made = [json.loads(line) for line in (tmp_path / "out" / "captions.jsonl").read_text().splitlines()]
    row = {
        "image": "0.png",
        "captions": ["caption 0"],
        "generated_images": ["1.png"],
        "generated_captions": ["of another model"],
    }
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    for source, target in (("pairs", "once"), ("once", "twice")):
        join = ["join", str(tmp_path / f"{source}.jsonl"), "--positives", str(tmp_path / "out")]
        assert positives.main([*join, "--output", str(tmp_path / f"{target}.jsonl")]) == 0
        [pair] = load_pairs(str(tmp_path / f"{target}.jsonl"))
        assert pair.generated_captions == ("of another model", made[0]["caption"])
        assert pair.generated_images == (tmp_path / "1.png",)


def test_join_says_which_caption_made_an_image_of_data_that_does_not_say(tmp_path):
    for name in ("real", "other"):
        Image.new("RGB", (20, 20)).save(tmp_path / f"{name}.png")
    with PositiveWriter(tmp_path / "out", "images") as writer:
        writer.begin(Recipe("tiny", "1", 0, {}))
        writer.add_image(text_key("two"), Image.new("RGB", (8, 8)), caption="two")
    made = next((tmp_path / "out" / "images").rglob("*.png"))
    row = {
        "image": "real.png",
        "captions": ["one", "two"],
        "generated_images": ["other.png", str(made)],
    }
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    target = tmp_path / "train.jsonl"
    join = ["join", str(tmp_path / "pairs.jsonl"), "--positives", str(tmp_path / "out")]
    join += ["--output", str(target)]
    assert positives.main(join) == 0
    [pair] = load_pairs(str(target))
    assert pair.generated_images == (tmp_path / "other.png", made)
    assert pair.generated_from == (None, "two")


@pytest.mark.parametrize("name", ["joined.jsonl.gz", "joined.csv", "joined"])
def test_join_writes_json_lines_and_says_so(data, tmp_path, name):
    (tmp_path / "out").mkdir()
    join = ["join", str(data), "--positives", str(tmp_path / "out"), "--output", str(tmp_path / name)]
    with pytest.raises(ConfigError, match=r"pairs are JSON lines; the name must end in \.jsonl"):
        positives.main(join)
    assert not (tmp_path / name).exists()
