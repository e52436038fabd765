import json
import shutil

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from suisei.data.sample import CaptionSample
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.pacs import PacScore
from suisei.metrics.registry import get_metric


@pytest.fixture(scope="module")
def folder(tiny_clip, tmp_path_factory):
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("tiny-pacs") / "tiny"
    shutil.copytree(tiny_clip, folder)
    model = load_dual_encoder(str(folder), seed=2, device="cpu").model
    with torch.no_grad():
        model.token_embedding.weight.mul_(50)
        model.visual.proj.neg_()
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    torch.save({"state_dict": state}, folder / "published.pth")
    return folder


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8))


SAMPLES = [
    CaptionSample("a dog runs", ("a dog", "the sea at night"), picture(0)),
    CaptionSample("two cats on a mat", ("cats", "two cats", "x"), picture(1)),
    CaptionSample("word " * 200, ("another " * 150,), picture(2)),
]


@pytest.mark.parametrize("references", [False, True])
def test_equals_a_direct_open_clip_computation(folder, references):
    metric = PacScore(folder, w=2.0, references=references, device="cpu")
    model, transform = metric.encoder.model, metric.encoder.transform
    expected = []
    for sample in SAMPLES:
        with torch.inference_mode():
            texts = [f"A photo depicts {text}" for text in (sample.candidate, *sample.references)]
            text = model.encode_text(open_clip.tokenize(texts), normalize=True).double()
            image = model.encode_image(transform(sample.image)[None], normalize=True)[0].double()
        score = 2.0 * max(float(text[0] @ image), 0.0)
        best = float((text[1:] @ text[0]).max())
        expected.append(2 * score * best / (score + best) if references else score)
    np.testing.assert_allclose(metric.score(SAMPLES), expected, atol=1e-6)
    assert min(expected) > 0


def test_scales_of_papers_and_programs():
    def w(**options):
        return PacScore(untrained=True, **options).w

    assert w() == w(model="ViT-L/14") == w(model="xlm-roberta-base-ViT-B-32@laion5b_s13b_b90k") == 2.0
    assert w(variant="pac-s++") == w(variant="pac-s++", model="ViT-B-32-quickgelu@openai") == 2.5
    assert w(variant="pac-s++", model="ViT-L-14@laion2b_s32b_b82k") == 3.0
    assert w(variant="pac-s++", code_w=True) == w(variant="pac-s++", model="ViT-L-14", code_w=True) == 2.0
    assert w(variant="pac-s++", model="ViT-B-16", w=2.75) == 2.75
    with pytest.raises(ConfigError, match=r"'ViT-B-16' \(only ViT-B-32 2.5, ViT-L-14 3\)"):
        w(variant="pac-s++", model="ViT-B-16")
    with pytest.raises(ConfigError, match="the architecture of 'runs/none/model'"):
        w(variant="pac-s++", model="runs/none/model")
    with pytest.raises(ConfigError, match="either w or code_w"):
        w(w=2, code_w=True)
    with pytest.raises(ConfigError, match=r"pac-s, pac-s\+\+"):
        w(variant="pac")


@pytest.mark.parametrize(("backbone", "w"), [("ViT-B-32", 2.5), ("ViT-L-14-quickgelu", 3.0)])
def test_a_folder_has_the_scale_of_its_architecture_whatever_it_is_called(tmp_path, backbone, w):
    folder = tmp_path / "model"
    folder.mkdir()
    content = {"model_cfg": open_clip.get_model_config(backbone), "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    assert get_metric(f"pac-s++:{folder}").w == get_metric(f"ref-pac-s++:{folder}").w == w


def test_another_architecture_needs_a_scale(folder):
    with pytest.raises(ConfigError, match=r"architecture of '.*/tiny'.*--metric-option ref-pac-s\+\+.w=2.5"):
        get_metric(f"ref-pac-s++:{folder}")
    assert get_metric(f"pac-s++:{folder}", w=2.75).w == 2.75
    encoder = load_dual_encoder(str(folder), device="cpu")
    with pytest.raises(ConfigError, match="architecture of 'tiny'"):
        PacScore(encoder=encoder, variant="pac-s++")


def test_the_scale_is_a_mere_factor_without_references(folder):
    two, three = (PacScore(folder, w=w, device="cpu").score(SAMPLES) for w in (2.0, 3.0))
    np.testing.assert_allclose(two * 1.5, three)


def test_names_and_signatures(folder):
    metric = get_metric(f"ref-pac-s++:{folder}", code_w=True, device="cpu")
    assert metric.name == "ref-pac-s++"
    assert metric.needs == {"image", "references"}
    signature = metric.signature
    for part in (
        f"|model:{folder.name}|",
        "weights:sha256-",
        "|w:2|",
        "|ref:max|",
        "prompt:'A photo depicts '",
    ):
        assert part in signature
    assert get_metric(f"pac-s:{folder}").name == "pac-s"


def test_a_published_file_with_its_architecture(folder):
    metric = get_metric(f"pac-s:{folder / 'published.pth'}", model=str(folder), device="cpu")
    np.testing.assert_array_equal(
        metric.score(SAMPLES), get_metric(f"pac-s:{folder}", device="cpu").score(SAMPLES)
    )


def test_without_trained_weights_it_says_what_to_give():
    for name in ("pac-s", "ref-pac-s++"):
        with pytest.raises(UnavailableError, match=r"CHECKPOINT.*untrained=true"):
            get_metric(name)


def test_warnings_name_the_folder_as_it_was_given(folder):
    samples = [CaptionSample("犬が走る", (), picture(0)), SAMPLES[2]]
    with pytest.warns(UserWarning, match="English tokenizer") as said:
        PacScore(folder, device="cpu").score(samples)
    texts = [str(warning.message) for warning in said]
    for wanted in (f"pac-s: {folder} has an English tokenizer", f"with more tokens than {folder} reads"):
        assert sum(wanted in text for text in texts) == 1
