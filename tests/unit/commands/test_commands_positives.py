"""``suisei positives`` with models of a few thousand weights."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.cli import run_command
from suisei.commands import positives
from suisei.data.item_seeds import item_seed, text_key
from suisei.data.pairs import load_pairs
from suisei.errors import ConfigError, DataError, ModelError
from suisei.pacs.generators import Captioner
from suisei.pacs.manifest import read_positives
from suisei.pacs.positive_writer import PositiveWriter, Recipe

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "[ENC]",
    "a", "dog", "cat", "man", "runs", "sits", "red", "on", "the", "mat", "two",
]  # fmt: skip
SIZE = {"hidden_size": 16, "intermediate_size": 20, "projection_dim": 16, "num_hidden_layers": 1}


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    from transformers import (
        BertTokenizer,
        BlipConfig,
        BlipForConditionalGeneration,
        BlipImageProcessor,
        BlipProcessor,
    )

    folder = tmp_path_factory.mktemp("models") / "tiny-blip"
    text = {"vocab_size": len(WORDS), "encoder_hidden_size": 16, "num_attention_heads": 2, **SIZE}
    text |= {"max_position_embeddings": 32, "bos_token_id": 5, "eos_token_id": 3, "pad_token_id": 0}
    vision = {"num_attention_heads": 2, "image_size": 32, "patch_size": 16, **SIZE}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BlipForConditionalGeneration(
            BlipConfig(text_config={**text, "sep_token_id": 3}, vision_config=vision, projection_dim=16)
        )
    model.save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})
    BlipProcessor(BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer).save_pretrained(folder)
    return folder


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


@pytest.fixture
def data(tmp_path):
    rows = []
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 255, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append({"id": str(number), "image": f"{number}.png", "caption": f"caption {number}"})
    rows.append({"id": "again", "image": "0.png", "caption": "caption 0"})
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def captions(data, blip, output, *options):
    shared = ["--model", str(blip), "--output", str(output), "--max-tokens", "8", "--device", "cpu"]
    return positives.main(["captions", str(data), *shared, *options])


def texts(folder):
    return {source: found.caption for source, found in read_positives(folder).items()}


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


@pytest.mark.parametrize("name", ["joined.jsonl.gz", "joined.csv", "joined"])
def test_join_writes_json_lines_and_says_so(data, tmp_path, name):
    (tmp_path / "out").mkdir()
    join = ["join", str(data), "--positives", str(tmp_path / "out"), "--output", str(tmp_path / name)]
    with pytest.raises(ConfigError, match=r"pairs are JSON lines; the name must end in \.jsonl"):
        positives.main(join)
    assert not (tmp_path / name).exists()
