import copy
import json
import pickle
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.encoders.dual import DualEncoder, normalised
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.errors import ConfigError, DataError, ModelError, UnavailableError


@pytest.fixture(scope="module")
def encoder(tiny_clip):
    return load_dual_encoder(str(tiny_clip), seed=3, device="cpu")


def picture(seed: int, size=(40, 50)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_images_equal_a_direct_computation(encoder):
    images = [picture(seed) for seed in range(5)]
    with torch.inference_mode():
        expected = encoder.model.encode_image(torch.stack([encoder.transform(image) for image in images]))
    found = encoder.encode_images(images, batch_size=2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_texts_equal_a_direct_computation(encoder):
    import open_clip

    texts = ["a dog", "two cats on a mat " * 40, "x", "猫が寝ている", "a man in a red coat rides a horse"]
    tokens = open_clip.tokenize(["see " + text for text in texts])
    assert tokens[1, -1] == tokens.max()  # the end of text stays when a text is cut
    with torch.inference_mode():
        expected = encoder.model.encode_text(tokens).numpy()
    np.testing.assert_allclose(encoder.encode_texts(texts, prompt="see ", batch_size=2), expected, atol=1e-5)


def test_order_and_batch_do_not_matter(encoder):
    texts = [f"{'word ' * (7 * number % 11)}{number}" for number in range(20)]
    forward = encoder.encode_texts(texts, batch_size=3)
    backward = encoder.encode_texts(texts[::-1], batch_size=64)
    np.testing.assert_allclose(forward, backward[::-1], atol=1e-5)


def test_each_different_item_is_encoded_once(encoder, tmp_path, monkeypatch):
    rows = {"image": 0, "text": 0}
    image, text = encoder.model.encode_image, encoder._encode_tokens

    def count(kind, function):
        def counted(batch):
            rows[kind] += len(batch)
            return function(batch)

        return counted

    monkeypatch.setattr(encoder.model, "encode_image", count("image", image))
    monkeypatch.setattr(encoder, "_encode_tokens", count("text", text))
    for name in ("one.png", "copy.png"):
        picture(1).save(tmp_path / name)
    found = encoder.encode_images([tmp_path / "one.png", picture(2), tmp_path / "copy.png", picture(2)])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    captions = encoder.encode_texts(["a", "b", "a", "A "])
    np.testing.assert_array_equal(captions[0], captions[2])
    assert rows == {"image": 2, "text": 3}


def test_nothing_to_encode(encoder):
    assert len(encoder.encode_texts([])) == 0
    assert len(encoder.encode_images([])) == 0


def test_an_unreadable_image_is_named(encoder, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"broken\.png"):
        encoder.encode_images([picture(0), broken])


def test_lower_precision_is_near_and_in_the_settings(encoder, tiny_clip):
    low = load_dual_encoder(str(tiny_clip), seed=3, precision="bf16", device="cpu")
    exact, near = (normalised(each.encode_texts(["a dog runs"])) for each in (encoder, low))
    assert 0 < np.abs(exact - near).max() < 0.05
    assert (encoder.settings()["precision"], low.settings()["precision"]) == ("fp32", "bf16")
    assert near.dtype == np.float32


def test_normalised_leaves_zero_alone():
    rows = normalised(np.array([[3, 4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0]])
    assert rows.dtype == np.float32


def test_a_seed_decides_the_weights_and_leaves_the_generator(tiny_clip):
    state = torch.get_rng_state()
    texts = ["a dog"]
    zero, again, one = (load_dual_encoder(str(tiny_clip), seed=seed, device="cpu") for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(zero.encode_texts(texts), again.encode_texts(texts))
    assert not np.allclose(zero.encode_texts(texts), one.encode_texts(texts))
    assert zero.settings()["weights"] == "seed-0"


def test_english_and_multilingual_tokenizers_are_told_apart(encoder):
    class Inner:
        unk_token = "<unk>"

        def __init__(self, pieces):
            self.tokenize = lambda _text: pieces

    class Wrapper:
        def __init__(self, pieces):
            self.tokenizer = Inner(pieces)

    def reads(pieces):
        return DualEncoder(
            encoder.model, Wrapper(pieces), encoder.transform, name="x", weights="y"
        ).reads_japanese

    assert not encoder.reads_japanese
    assert reads(["▁", "犬", "が", "公園", "で"])
    assert not reads(["犬", "<unk>"])
    assert not reads(["ç", "Ĭ", "¬"] * 12)


@pytest.mark.parametrize("file", ["weights.safetensors", "weights.pt", "wrapped.pth", "parallel.bin"])
def test_checkpoints_of_every_form_load(encoder, tiny_clip, tmp_path, file):
    from safetensors.torch import save_file

    state = encoder.model.state_dict()
    path = tmp_path / file
    if path.suffix == ".safetensors":
        save_file({key: value.contiguous() for key, value in state.items()}, path)
    elif file == "wrapped.pth":
        torch.save({"state_dict": state, "epoch": 3}, path)
    elif file == "parallel.bin":
        torch.save({f"module.{key}": value for key, value in state.items()}, path)
    else:
        torch.save(state, path)
    loaded = load_dual_encoder(str(tiny_clip), checkpoint=path, device="cpu")
    np.testing.assert_array_equal(loaded.encode_texts(["a dog"]), encoder.encode_texts(["a dog"]))
    assert loaded.settings()["weights"].startswith("sha256-")


def test_a_folder_holds_its_own_weights(encoder, tiny_clip, tmp_path):
    from safetensors.torch import save_file

    own = tmp_path / "own"
    shutil.copytree(tiny_clip, own)
    with pytest.raises(ConfigError, match="has no weights"):
        load_dual_encoder(str(own), device="cpu")
    state = {key: value.contiguous() for key, value in encoder.model.state_dict().items()}
    save_file(state, own / "open_clip_model.safetensors")
    loaded = load_dual_encoder(str(own), device="cpu")
    np.testing.assert_array_equal(loaded.encode_texts(["a dog"]), encoder.encode_texts(["a dog"]))


class _Code:
    def __reduce__(self):
        return (open, ("/tmp/suisei-must-not-exist", "w"))


def test_a_pickle_with_code_is_refused(tiny_clip, tmp_path):
    path = tmp_path / "evil.pt"
    torch.save({"state_dict": _Code()}, path)
    with pytest.raises(ModelError, match=r"evil\.pt: refused.*could run code"):
        load_dual_encoder(str(tiny_clip), checkpoint=path, device="cpu")
    path.write_bytes(pickle.dumps(_Code(), protocol=2))
    with pytest.raises(ModelError, match=r"evil\.pt"):
        load_dual_encoder(str(tiny_clip), checkpoint=path, device="cpu")


def test_keys_that_do_not_fit_are_listed(encoder, tiny_clip, tmp_path):
    state = copy.copy(encoder.model.state_dict())
    del state["visual.proj"]
    state["extra.weight"] = torch.zeros(2)
    state["text_projection"] = torch.zeros(3, 3)
    path = tmp_path / "other.pt"
    torch.save(state, path)
    with pytest.raises(ModelError) as caught:
        load_dual_encoder(str(tiny_clip), checkpoint=path, device="cpu")
    message = str(caught.value)
    for part in ("1 missing: visual.proj", "1 unknown: extra.weight", "text_projection [3, 3] instead of"):
        assert part in message
    for bad, content in (("no.pt", None), ("bad.safetensors", b"xx"), ("bad.pt", b"xx")):
        if content:
            (tmp_path / bad).write_bytes(content)
        with pytest.raises(ModelError, match=bad):
            load_dual_encoder(str(tiny_clip), checkpoint=tmp_path / bad, device="cpu")


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(ConfigError, match=r"no model 'runs/none', and there is no such folder"):
        load_dual_encoder("runs/none", seed=0)
    with pytest.raises(ConfigError, match=r"no model 'ViT-Z'.*ViT-B-32"):
        load_dual_encoder("ViT-Z")
    with pytest.raises(ConfigError, match=r"no weights 'mine'.*openai"):
        load_dual_encoder("ViT-B/32", "mine")
    with pytest.raises(ConfigError, match="no weights: give"):
        load_dual_encoder("ViT-B-32", None)


def test_a_hub_out_of_reach_is_one_line(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnavailableError, match="local copy") as caught:
        load_dual_encoder("xlm-roberta-base-ViT-B-32", "laion5b_s13b_b90k")
    assert "\n" not in str(caught.value)
    assert "xlm-roberta-base-ViT-B-32" in str(caught.value)


def test_what_else_decides_features_counts_in_the_name_of_the_weights(tiny_clip, tmp_path):
    from safetensors.torch import save_file

    copied, again = tmp_path / "copied", tmp_path / "again"
    shutil.copytree(tiny_clip, copied)
    state = load_dual_encoder(str(tiny_clip), device="cpu", seed=0).model.state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, copied / "model.safetensors")
    shutil.copytree(copied, again)
    names = [load_dual_encoder(str(copied), device="cpu").settings()["weights"]]
    config = json.loads((copied / "open_clip_config.json").read_text(encoding="utf-8"))
    config["preprocess_cfg"]["std"] = [0.5, 0.5, 0.5]
    (copied / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    names.append(load_dual_encoder(str(copied), device="cpu").settings()["weights"])
    assert names[0] == load_dual_encoder(str(again), device="cpu").settings()["weights"] != names[1]
