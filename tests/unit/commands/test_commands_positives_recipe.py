"""``suisei positives`` when something changed: model or settings since the last start, an image meanwhile."""

import json

import pytest
from PIL import Image

from suisei.commands import positives
from suisei.data.images import content_key
from suisei.data.item_seeds import text_key
from suisei.encoders.text_to_image import model_identity
from suisei.errors import ConfigError
from suisei.pacs.generators import CAPTIONER, ILLUSTRATOR
from suisei.pacs.manifest import read_positives
from suisei.pacs.positive_writer import PositiveWriter, Recipe

CAPTIONS = {"max_new_tokens": 30, "num_beams": 3}
IMAGES = {"num_inference_steps": 50, "guidance_scale": 7.5}


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def made(tmp_path, model):
    """Return what starts a run on one image, of which the model has made everything with some settings."""
    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    data, output = tmp_path / "data.jsonl", tmp_path / "out"
    data.write_text(json.dumps({"image": "1.png", "caption": "a dog"}) + "\n")

    def start(kind, settings, *options):
        if not output.exists():
            with PositiveWriter(output, kind) as writer:
                writer.begin(Recipe(*model_identity(str(model), None, "config.json"), 0, settings))
                if kind == "captions":
                    writer.add_caption(content_key(tmp_path / "1.png"), "a cat")
                else:
                    writer.add_image(text_key("a dog"), Image.new("RGB", (8, 8)), caption="a dog")
        return positives.main([kind, str(data), "--output", str(output), *options])

    return start


def test_another_model_in_the_same_folder_is_refused(made, model):
    assert made("captions", CAPTIONS, "--model", str(model)) == 0
    (model / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ConfigError, match=r"was made with revision 'sha256-\w+', this run has 'sha256-"):
        made("captions", CAPTIONS, "--model", str(model))


@pytest.mark.parametrize("given", ["b" * 40, "v2"])
def test_another_version_of_the_hubs_model_is_refused_where_nothing_is_left_to_do(
    tmp_path, monkeypatch, given
):
    """A name of a version that is not in the cache may stand for any, and cannot be compared."""
    versions = tmp_path / "hub" / "models--some--model"
    for name, commit in (("v1", "a" * 40), ("v2", "b" * 40)):
        (versions / "snapshots" / commit).mkdir(parents=True)
        (versions / "snapshots" / commit / "config.json").write_text("{}")
        (versions / "refs").mkdir(exist_ok=True)
        (versions / "refs" / name).write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    (tmp_path / "data.jsonl").write_text(json.dumps({"image": "1.png"}) + "\n")
    with PositiveWriter(tmp_path / "out", "captions") as writer:
        writer.begin(Recipe("some/model", "a" * 40, 0, CAPTIONS))
        writer.add_caption(content_key(tmp_path / "1.png"), "a cat")
    start = ["captions", str(tmp_path / "data.jsonl"), "--model", "some/model", "--output"]
    start += [str(tmp_path / "out")]
    assert positives.main(start) == 0
    for same in ("v1", "a" * 40, "elsewhere"):
        assert positives.main([*start, "--revision", same]) == 0
    with pytest.raises(ConfigError, match=r"was made with revision 'a{40}', this run has 'b{40}'"):
        positives.main([*start, "--revision", given])


@pytest.mark.parametrize(
    ("kind", "settings", "usual"), [("captions", CAPTIONS, CAPTIONER), ("images", IMAGES, ILLUSTRATOR)]
)
def test_the_usual_model_is_another_than_the_one_that_was_named(made, kind, settings, usual):
    with pytest.raises(ConfigError, match=f"was made with model 'model', this run has '{usual}'"):
        made(kind, settings)


def test_images_of_the_models_own_size_are_not_those_of_a_size_that_was_given(made, model):
    settings = {**IMAGES, "height": 16, "width": 16}
    assert made("images", settings, "--model", str(model), "--size", "16") == 0
    with pytest.raises(ConfigError, match="was made with height 16, this run has None"):
        made("images", settings, "--model", str(model))


def test_an_image_that_changes_while_the_run_lasts_is_captioned_by_the_next(tmp_path, monkeypatch, capsys):
    image, data = tmp_path / "1.png", tmp_path / "data.jsonl"
    Image.new("RGB", (8, 8), "red").save(image)
    data.write_text(json.dumps({"image": "1.png"}) + "\n")

    class Colour:
        name, revision, settings = "colour", "1", CAPTIONS

        def __init__(self, *_, **__):
            Image.new("RGB", (8, 8), "blue").save(image)

        def generate(self, pictures, seeds):
            return [f"colour {picture.getpixel((0, 0))}" for picture in pictures]

    monkeypatch.setattr("suisei.pacs.generators.Captioner", Colour)
    start = ["captions", str(data), "--model", "colour", "--output", str(tmp_path / "out")]
    assert positives.main(start) == 1
    assert "the image file changed while" in " ".join(capsys.readouterr().err.split())
    assert positives.main(start) == 0
    [made] = read_positives(tmp_path / "out").items()
    assert (made[0], made[1].caption) == (content_key(image), "colour (0, 0, 255)")
