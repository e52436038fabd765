"""Captioners of Hugging Face, made from configs: the same interface, and the same captions as their own."""

import copy
import json
from types import SimpleNamespace

import pytest
import torch

from suisei.captioning.caption_model import Decoding, load_caption_model
from suisei.captioning.hf_captioner import wrapped
from suisei.captioning.hf_checks import check_ids, check_tokenizer, longest_caption
from suisei.encoders.tiny import train_tokenizer
from suisei.errors import ConfigError, ModelError

SIDE = 32
IMAGE = {"image_size": SIDE, "patch_size": 16, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4}


def blip(tokenizer):
    from transformers import BlipConfig, BlipForConditionalGeneration, BlipTextConfig, BlipVisionConfig

    text = BlipTextConfig(
        vocab_size=len(tokenizer), hidden_size=32, encoder_hidden_size=32, intermediate_size=64, **LAYERS,
        bos_token_id=0, pad_token_id=1, sep_token_id=2, eos_token_id=2, is_decoder=True, projection_dim=16,
    )  # fmt: skip
    vision = BlipVisionConfig(**IMAGE, **LAYERS, projection_dim=16)
    return BlipForConditionalGeneration(
        BlipConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    )


def encoder_decoder(tokenizer):
    from transformers import (
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
    )

    text = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=24, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=2, is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(ViTConfig(**IMAGE, **LAYERS), text)
    config.decoder_start_token_id, config.eos_token_id, config.pad_token_id = 0, 2, 2  # GPT-2 has no padding
    return VisionEncoderDecoderModel(config)


def trocr(tokenizer):
    from transformers import TrOCRConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

    text = TrOCRConfig(
        vocab_size=len(tokenizer), d_model=24, decoder_layers=2, decoder_attention_heads=4,
        decoder_ffn_dim=48, max_position_embeddings=32, bos_token_id=0, pad_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(ViTConfig(**IMAGE, **LAYERS), text)
    config.decoder_start_token_id, config.eos_token_id, config.pad_token_id = 2, 2, 1  # as in TrOCR's folders
    return VisionEncoderDecoderModel(config)


@pytest.fixture(params=[blip, encoder_decoder], ids=["blip", "vision-encoder-decoder"])
def model(request):
    from transformers import ViTImageProcessor

    torch.manual_seed(0)
    tokenizer = train_tokenizer(["a red picture", "a green one", "the picture is blue"], 40)
    processor = ViTImageProcessor(size={"height": SIDE, "width": SIDE})
    return wrapped(request.param(tokenizer), tokenizer, processor).eval()


@pytest.fixture
def memory(model, pictures):
    return model.encode(model.read(pictures[:3]))


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_kept_keys_and_values_change_nothing(model, memory, method):
    decoding = Decoding(method, beams=3, samples=2, max_length=6)
    found = model.generate(memory, decoding, torch.Generator().manual_seed(0))
    again = model.log_probs(memory, found.tokens)
    assert found.tokens.shape[:2] == (3, decoding.captions)
    torch.testing.assert_close(found.log_probs, again.detach(), atol=1e-4, rtol=1e-3)
    assert again.requires_grad


@pytest.mark.filterwarnings("error::FutureWarning")
def test_no_caption_is_written_by_what_transformers_will_not_know(model, memory):
    found = model.generate(memory, Decoding("greedy", max_length=4))
    assert found.tokens.shape[:2] == (3, 1)


@pytest.mark.parametrize("model", [blip, encoder_decoder, trocr], indirect=True)
def test_greedy_captions_are_those_that_transformers_writes(model, pictures):
    pixels = model.read(pictures[:3])
    banned = model.banned.tolist()
    options = {"max_new_tokens": 8, "num_beams": 1, "do_sample": False, "suppress_tokens": banned}
    for _ in range(8):  # some would write what is banned, some end early
        with torch.no_grad():
            for weight in [one for one in model.network.parameters() if one.ndim > 1]:
                weight.normal_(std=0.3)
        wanted = model.network.generate(pixel_values=pixels, **options)[:, 1:].tolist()
        found = model.generate(model.encode(pixels), Decoding("greedy", max_length=8)).tokens[:, 0].tolist()
        assert [upto(model.end_id, own) for own in found] == [upto(model.end_id, their) for their in wanted]


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0])
def test_beams_are_those_that_transformers_finds(model, pictures, penalty):
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.mul_(3 if weight.ndim > 1 else 1)  # surer of what it writes, so that captions end
    pixels = model.read(pictures[:3])
    options = {"max_new_tokens": 8, "num_beams": 4, "num_return_sequences": 4, "do_sample": False}
    own = model.network.generate(
        pixel_values=pixels, length_penalty=penalty, suppress_tokens=model.banned.tolist(),
        renormalize_logits=True, **options,
    )[:, 1:]  # fmt: skip
    decoding = Decoding("beam", beams=4, max_length=8, length_penalty=penalty)
    found = model.generate(model.encode(pixels), decoding)
    ids = [upto(model.end_id, row) for row in found.tokens.flatten(0, 1).tolist()]
    assert ids == [upto(model.end_id, row) for row in own.tolist()]
    again = model.log_probs(model.encode(pixels), found.tokens).detach()
    torch.testing.assert_close(found.log_probs, again, atol=1e-4, rtol=1e-4)


def upto(end, ids):
    return ids[: ids.index(end)] if end in ids else ids


def test_captions_become_tokens_and_come_back(model):
    tokens = model.tokens_of(["a red picture", "a green one"])
    assert model.texts(tokens[:, None]) == [["a red picture"], ["a green one"]]
    assert (tokens[tokens != model.pad_id] < model.vocabulary).all()


def test_a_saved_folder_says_the_same(model, memory, pictures, tmp_path):
    model.save(tmp_path / "model")
    again = load_caption_model(tmp_path / "model")
    pixels = again.read(pictures[:3])
    with torch.no_grad():
        torch.testing.assert_close(again.encode(pixels), memory, atol=1e-5, rtol=1e-4)
    decoding = Decoding("greedy", max_length=6)
    assert again.texts(again.generate(memory, decoding).tokens) == model.texts(
        model.generate(memory, decoding).tokens
    )
    assert again.language_or_own("ja") == "ja"


def test_a_frozen_image_encoder_learns_nothing_and_another_does(model, pictures):
    pixels = model.read(pictures[:2])
    assert not model.grid(pixels).requires_grad
    model.let_tower_learn(True)
    assert model.grid(pixels).requires_grad


def test_other_folders_are_refused_in_one_line(model, tmp_path):
    folder = tmp_path / "model"
    model.save(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"no \.safetensors"):
        load_caption_model(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ModelError, match="not the folder of a captioner"):
        load_caption_model(folder)


def changed(folder, name, **values):
    settings = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**settings, **values}))


def test_a_tokenizer_of_another_model_is_refused(model, tmp_path):
    model.save(tmp_path / "model")
    captions = ["a man rides brown horses in snow", "dogs jump over white foxes"] * 3
    train_tokenizer(captions, 200).save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match=r"has \d+ tokens and its decoder \d+; take the tokenizer") as found:
        load_caption_model(tmp_path / "model")
    assert str(found.value).startswith(str(tmp_path / "model"))


def test_a_vocabulary_that_was_padded_is_read(model):
    fewer = train_tokenizer(["a red picture", "a green one"], 40)
    assert len(fewer) < model.vocabulary
    assert wrapped(model.network, fewer, model.processor).vocabulary == model.vocabulary


def test_padding_that_was_added_to_a_tokenizer_alone_is_no_part_of_captions(model):
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.add_special_tokens({"pad_token": "[added]"})
    padded = wrapped(model.network, tokenizer, model.processor)
    found = padded.tokens_of(["a red [added] picture"])
    assert torch.equal(found, model.tokens_of(["a red  picture"]))
    tokenizer.add_tokens(["snow"])
    with pytest.raises(ModelError, match="take the tokenizer"):
        wrapped(model.network, tokenizer, model.processor)


@pytest.mark.parametrize(("vocabulary", "known"), [(50_257, 30_522), (20, 9)])
def test_a_tokenizer_that_is_too_small_for_padding_to_explain_it_is_refused(vocabulary, known):
    tokenizer = SimpleNamespace(
        get_vocab=lambda: {str(id_): id_ for id_ in range(known)}, all_special_ids=[0]
    )
    check_tokenizer(tokenizer, known + 8, 2)
    with pytest.raises(ModelError, match="has but"):
        check_tokenizer(tokenizer, vocabulary, 2)
    with pytest.raises(ModelError, match="lacks the end of captions"):
        check_tokenizer(tokenizer, known + 8, known)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((None, 2, None), "the start token of captions is None"),
        ((0, None, 1), "the end token of captions is None"),
        ((0, 10, 1), "the end token of captions is 10"),
        ((0, 2, 10), "the pad token of captions is 10"),
        ((-1, 2, 1), "the start token of captions is -1"),
        ((0, [], 1), r"the end token of captions is \[\]"),
        ((0, [2, 4], 1), r"the end token of captions is any of \[2, 4\] in its config, and must be one"),
    ],
)
def test_ids_that_a_decoder_has_not_are_refused(ids, message):
    check_ids(10, 0, 2, None)
    with pytest.raises(ModelError, match=message):
        check_ids(10, *ids)


@pytest.mark.parametrize("model", [encoder_decoder], indirect=True)
def test_several_end_tokens_are_refused_and_one_in_a_list_is_taken(model):
    """Transformers ends a caption at any of them."""
    model.network.generation_config.eos_token_id = [2, 2]
    assert wrapped(model.network, model.tokenizer, model.processor).end_id == 2
    model.network.generation_config.eos_token_id = [2, 4]
    with pytest.raises(ModelError, match=r"end token of captions is any of \[2, 4\]"):
        wrapped(model.network, model.tokenizer, model.processor)


def test_weights_that_are_missing_or_of_another_shape_are_refused(model, tmp_path, capfd):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    model.save(folder)
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if "cross" in name.lower())
    rest = {name: value for name, value in weights.items() if name != lost}
    save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"has no weights for: {lost}; get the whole model again"):
        load_caption_model(folder)
    save_file({**rest, lost: torch.zeros(3)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=rf"other shapes: {lost} is \[3\] in place of"):
        load_caption_model(folder)
    assert not capfd.readouterr().err  # neither the bar of transformers nor its report


def test_weights_that_no_caption_depends_on_may_be_missing(model, tmp_path):
    from safetensors.torch import load_file, save_file

    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    kept = {name: value for name, value in load_file(path).items() if "encoder.pooler." not in name}
    save_file(kept, path, metadata={"format": "pt"})
    assert load_caption_model(tmp_path / "model").vocabulary == model.vocabulary


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": {"height": 48, "width": 48}}, "gives images of 48 x 48, not those of the model .32."),
        ({"do_resize": False}, "images of different sizes"),
        ({"image_mean": [0.5] * 7}, "cannot prepare an image"),
    ],
)
def test_an_image_processor_of_another_model_is_refused(model, tmp_path, values, message):
    model.save(tmp_path / "model")
    name = "preprocessor_config.json"
    changed(tmp_path / "model", name, **values)
    with pytest.raises(ModelError, match=message):
        load_caption_model(tmp_path / "model")


def test_captions_longer_than_the_decoder_has_positions_for_are_refused(model, memory):
    model.longest = 8
    assert model.generate(memory, Decoding("greedy", max_length=8)).tokens.shape[-1] <= 8
    with pytest.raises(ConfigError, match="max_length is 9; this captioner writes at most 8 tokens"):
        model.generate(memory, Decoding("greedy", max_length=9))
    assert model.tokens_of(["a red picture " * 9]).shape[-1] == 8


def test_the_positions_of_a_decoder_bound_its_captions(model):
    from transformers import RobertaConfig

    assert model.longest in (32, 512)  # GPT-2's above, BLIP's by default
    assert longest_caption(RobertaConfig(max_position_embeddings=34)) == 32
    assert longest_caption(SimpleNamespace()) is None
