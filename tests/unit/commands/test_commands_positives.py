"""``suisei positives`` with models of a few thousand weights."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.cli import run_command
from suisei.commands import positives
from suisei.data.item_seeds import item_seed
from suisei.errors import ConfigError, DataError, ModelError
from suisei.pacs.generators import Captioner
from suisei.pacs.manifest import read_positives
from tests.unit.commands.positives_runs import captions, rows_of_images, texts, tiny_blip


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    return tiny_blip(tmp_path_factory.mktemp("models") / "tiny-blip")


@pytest.fixture
def data(tmp_path):
    return rows_of_images(tmp_path)


@pytest.fixture(scope="module")
def vit_gpt2(tmp_path_factory):
    """A vision-encoder-decoder, whose image processor and tokenizer have no processor in common."""
    from transformers import (
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTImageProcessor,
    )

    from suisei.encoders.tiny import train_tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-vit-gpt2"
    tokenizer = train_tokenizer(["a red dog runs", "two cats sit"], 40)
    text = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=24, n_layer=1, n_head=4, bos_token_id=0,
        eos_token_id=2, is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
    image = ViTConfig(
        image_size=32, patch_size=16, hidden_size=16, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=2,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(image, text)
    config.decoder_start_token_id, config.eos_token_id, config.pad_token_id = 0, 2, 2
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = VisionEncoderDecoderModel(config)
    for part in (model, tokenizer, ViTImageProcessor(size={"height": 32, "width": 32})):
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("sampling", [(), ("--top-p", "0.9")])
def test_resuming_order_and_batch_do_not_change_captions(data, blip, tmp_path, sampling):
    assert captions(data, blip, tmp_path / "whole", *sampling) == 0
    assert len(texts(tmp_path / "whole")) == 5  # the same image occurs twice in the data
    assert captions(data, blip, tmp_path / "parts", "--limit", "2", "--batch-size", "1", *sampling) == 0
    before = (tmp_path / "parts" / "captions.jsonl").read_text()
    data.write_text("".join(reversed(data.read_text().splitlines(keepends=True))))
    assert captions(data, blip, tmp_path / "parts", "--batch-size", "3", *sampling) == 0
    assert (tmp_path / "parts" / "captions.jsonl").read_text().startswith(before)
    assert texts(tmp_path / "parts") == texts(tmp_path / "whole")


def test_captions_equal_the_model_itself(data, blip, tmp_path):
    captions(data, blip, tmp_path / "out")
    from transformers import BlipForConditionalGeneration, BlipProcessor

    model, processor = BlipForConditionalGeneration.from_pretrained(blip), BlipProcessor.from_pretrained(blip)
    found = [json.loads(line) for line in (tmp_path / "out" / "captions.jsonl").read_text().splitlines()]
    for record in found:
        inputs = processor(images=Image.open(record["image"]), return_tensors="pt")
        ids = model.generate(**inputs, num_beams=3, max_new_tokens=8)
        assert record["caption"] == processor.decode(ids[0], skip_special_tokens=True).strip()
        assert record["seed"] == item_seed(0, record["source"])
    assert (found[0]["model"], found[0]["settings"]["num_beams"]) == ("tiny-blip", 3)
    assert found[0]["revision"].startswith("sha256-")


def test_no_bar_of_transformers_is_drawn(data, blip, tmp_path, capsys):
    capsys.readouterr()
    captions(data, blip, tmp_path / "out")
    assert "Loading weights" not in capsys.readouterr().err


def test_the_seed_changes_samples(data, blip, tmp_path):
    for seed in ("0", "1"):
        captions(data, blip, tmp_path / seed, "--top-p", "0.9", "--seed", seed)
    assert texts(tmp_path / "0") != texts(tmp_path / "1")


def test_unreadable_images_do_not_stop_the_others(data, blip, tmp_path, capsys):
    good = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(good[:60])
    (tmp_path / "2.png").unlink()
    with data.open("a") as rows:  # images are counted, not the rows that name one
        rows.write(json.dumps({"id": "other", "image": "2.png", "caption": "another"}) + "\n")
    assert captions(data, blip, tmp_path / "out") == 1
    assert len(texts(tmp_path / "out")) == 3
    message = capsys.readouterr().err
    assert "2 images could not be read" in message
    assert "1.png" in message
    (tmp_path / "1.png").write_bytes(good)
    assert captions(data, blip, tmp_path / "out") == 1
    assert len(texts(tmp_path / "out")) == 4


def test_another_recipe_is_refused_before_the_model_is_loaded(data, blip, tmp_path, monkeypatch):
    captions(data, blip, tmp_path / "out")
    monkeypatch.setattr(Captioner, "__init__", lambda *_, **__: pytest.fail("loaded"))
    for options in (["--seed", "1"], ["--beams", "2"], ["--top-p", "0.5"]):
        with pytest.raises(ConfigError, match="was made with"):
            captions(data, blip, tmp_path / "out", *options)
    assert captions(data, blip, tmp_path / "out") == 0


def test_a_vision_encoder_decoder_writes_captions(data, vit_gpt2, tmp_path):
    from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

    assert captions(data, vit_gpt2, tmp_path / "out") == 0
    found = [json.loads(line) for line in (tmp_path / "out" / "captions.jsonl").read_text().splitlines()]
    assert len(found) == 5
    model = VisionEncoderDecoderModel.from_pretrained(vit_gpt2).eval()
    tokenizer, processor = (kind.from_pretrained(vit_gpt2) for kind in (AutoTokenizer, AutoImageProcessor))
    pixels = processor(images=Image.open(data.parent / "0.png"), return_tensors="pt")["pixel_values"]
    ids = model.generate(pixel_values=pixels, max_new_tokens=8, num_beams=3, do_sample=False)
    wanted = " ".join(tokenizer.batch_decode(ids, skip_special_tokens=True)[0].split())
    assert found[0]["caption"] == wanted
    assert wanted


def test_a_sampled_caption_is_drawn_from_the_share_of_top_p_alone(data, blip, tmp_path, monkeypatch):
    from transformers.generation import utils

    def refuse(*_, **__):
        pytest.fail("drawn from so many of the likeliest tokens")

    monkeypatch.setattr(utils, "TopKLogitsWarper", refuse)
    assert captions(data, blip, tmp_path / "out", "--top-p", "0.9") == 0
    lines = (tmp_path / "out" / "captions.jsonl").read_text().splitlines()
    assert [json.loads(line)["settings"]["top_k"] for line in lines] == [0] * 5


def test_what_is_not_there_is_said(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("suisei.encoders.hub_errors._reachable", lambda _: False)
    options = ["--model", "nobody/no-such-model", "--output", str(tmp_path / "out")]
    assert run_command(positives.main, ["captions", str(data), *options]) == 2
    assert "nobody/no-such-model" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert run_command(positives.main, ["images", str(data), *options]) == 2
    assert "pip install 'suisei[recap]'" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be loaded as an image-to-text model"):
        Captioner(str(tmp_path), device="cpu")
    with pytest.raises(ConfigError, match="top_p"):
        Captioner("x", top_p=1.5)


def images(data, model, output, *options):
    shared = ["--model", str(model), "--output", str(output), "--steps", "2", "--device", "cpu"]
    return positives.main(["images", str(data), *shared, *options])


def test_images_do_not_depend_on_batch_order_or_resuming(data, tiny_diffusion, tmp_path):
    assert images(data, tiny_diffusion, tmp_path / "whole") == 0
    assert images(data, tiny_diffusion, tmp_path / "parts", "--limit", "2", "--batch-size", "1") == 0
    data.write_text("".join(reversed(data.read_text().splitlines(keepends=True))))
    assert images(data, tiny_diffusion, tmp_path / "parts", "--batch-size", "2") == 0
    whole, parts = read_positives(tmp_path / "whole"), read_positives(tmp_path / "parts")
    assert len(whole) == len(parts) == 5
    for source, one in whole.items():
        first, second = (np.asarray(Image.open(each.file), dtype=int) for each in (one, parts[source]))
        assert np.abs(first - second).max() <= 1  # rounding between batches
    files = list((tmp_path / "whole").rglob("*.png"))
    assert len({path.read_bytes() for path in files}) == 5


def test_declined_images_are_no_positives_not_tried_again_and_told(
    data, tiny_diffusion, tmp_path, monkeypatch, capsys
):
    from suisei.pacs.generators import Illustrator

    monkeypatch.setattr(Illustrator, "generate", lambda self, captions, seeds: [None] * len(captions))
    told = "5 of 5 items, %d of them to do in this run; the model made nothing of 5 of them"
    assert images(data, tiny_diffusion, tmp_path / "out") == 0
    assert told % 5 in " ".join(capsys.readouterr().err.split())
    monkeypatch.setattr(Illustrator, "generate", lambda *_: pytest.fail("tried again"))
    assert images(data, tiny_diffusion, tmp_path / "out") == 0
    assert told % 0 in " ".join(capsys.readouterr().err.split())
    assert read_positives(tmp_path / "out") == {}
    assert "safety checker" in (tmp_path / "out" / "images.jsonl").read_text()


@pytest.mark.parametrize("task", ["captions", "images", "join"])
@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"id": "a\ud83d", "image": "1.png", "caption": "x"}, r"data\.jsonl, line 2: id holds a broken"),
        ({"image": "1.png", "caption": "x \ud83d"}, r"data\.jsonl, line 2: caption holds a broken"),
        ({"image": "\udcff.png", "caption": "x"}, r"data\.jsonl, line 2: image holds a broken"),
        ({"image": "1.png", "captions": ["x \ud83d"]}, r"data\.jsonl, row 2: captions 1 holds a broken"),
        ({"image": "\udcff.png", "captions": ["x"]}, r"data\.jsonl: an image's path holds a broken"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_before_anything_is_made(data, blip, tmp_path, task, row, named):
    (tmp_path / "\udcff.png").write_bytes((tmp_path / "1.png").read_bytes())
    field = "captions" if "captions" in row else "caption"
    first = {"image": "0.png", field: ["y"] if field == "captions" else "y"}
    data.write_text(json.dumps(first) + "\n" + json.dumps(row) + "\n")
    output = tmp_path / "out.jsonl"
    given = ["--positives", str(tmp_path)] if task == "join" else ["--model", str(blip)]
    with pytest.raises(DataError, match=named):
        positives.main([task, str(data), *given, "--output", str(output)])


def test_a_size_that_no_pipeline_draws_is_refused_before_the_model_is_loaded(data, tmp_path):
    with pytest.raises(ConfigError, match="--size must be a multiple of 8, got 300; give 296 or 304"):
        positives.main(["images", str(data), "--output", str(tmp_path / "out"), "--size", "300"])


def test_a_limit_is_one_of_images(data, blip, tmp_path):
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    several = [{**row, "id": f"{row['id']}-{n}"} for row in rows[:5] for n in range(3)]
    data.write_text("".join(json.dumps(row) + "\n" for row in several))
    assert captions(data, blip, tmp_path / "out", "--limit", "3") == 0
    assert len(texts(tmp_path / "out")) == 3
