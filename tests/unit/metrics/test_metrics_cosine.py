"""Cosine of sentence vectors, beside transformers' own way to them."""

import pickle
import shutil

import numpy as np
import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.encoders.pretrained import longest_input
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.registry import get_metric

SAMPLES = [
    CaptionSample("a dog runs in the park", ("two dogs run", "A man rides a bicycle through the town")),
    CaptionSample("犬が走る", ("犬が公園を走っている。", "猫", "犬が走る")),
    CaptionSample("a cat", ("the cat sat on a mat",)),
]


@pytest.fixture(scope="module")
def vector(tiny_bert):
    """Mean-pool one caption at a time with transformers."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModel.from_pretrained(tiny_bert).eval()

    def embed(text):
        with torch.inference_mode():
            return model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].mean(dim=0).numpy()

    return embed


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("references", "together"), [("mean", np.mean), ("max", np.max)])
@pytest.mark.parametrize("prefix", ["", "query: "])
def test_scores_are_those_of_transformers(tiny_bert, vector, references, together, prefix):
    metric = get_metric(
        f"cosine:{tiny_bert}", references=references, prefix=prefix, device="cpu", precision="fp32"
    )
    expected = [
        together([cosine(vector(prefix + s.candidate), vector(prefix + r)) for r in s.references])
        for s in SAMPLES
    ]
    np.testing.assert_allclose(metric.score(SAMPLES), expected, atol=1e-5)
    assert f"ref:{references}" in metric.signature
    assert ("|prefix:'query: '|" in metric.signature) == ("prefix" in metric.signature) == bool(prefix)


def test_prefixes_that_differ_in_a_space_have_signatures_of_their_own(tiny_bert):
    prefixes = ("", " ", "query:", "query: ", " query: ")
    metrics = [get_metric(f"cosine:{tiny_bert}", prefix=prefix, precision="fp32") for prefix in prefixes]
    assert len({metric.signature for metric in metrics}) == len(prefixes)


def test_a_score_depends_on_its_own_sample_alone(tiny_bert):
    metric = get_metric(f"cosine:{tiny_bert}", device="cpu", precision="fp32")
    alone = [metric.score([sample])[0] for sample in SAMPLES]
    np.testing.assert_allclose(metric.score(SAMPLES), alone, atol=1e-6)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(metric)).score(SAMPLES[::-1]), alone[::-1], atol=1e-6
    )


def test_a_model_folder_gives_its_own_encoder(model_folder):
    from suisei.metrics.loading import load

    metric = get_metric(f"cosine:{model_folder}", device="cpu", precision="fp32")
    text = load(model_folder, device="cpu", precision="fp32").regressor.text

    def embed(caption):
        with torch.inference_mode():
            return text(*text.pad(text.tokenize([caption])))[-1][0].mean(dim=0).numpy()

    expected = np.mean([cosine(embed(SAMPLES[0].candidate), embed(r)) for r in SAMPLES[0].references])
    assert metric.score(SAMPLES[:1])[0] == pytest.approx(expected, abs=1e-5)


def test_what_cannot_be_is_refused(tiny_bert):
    with pytest.raises(UnavailableError, match="cosine:intfloat/multilingual-e5-small"):
        get_metric("cosine")
    with pytest.raises(ConfigError, match="references is 'min'; it must be one of mean, max"):
        get_metric(f"cosine:{tiny_bert}", references="min")
    with pytest.raises(ConfigError, match="precision is 'int4'"):
        get_metric(f"cosine:{tiny_bert}", precision="int4")


def test_all_that_the_encoder_reads_is_read(tiny_bert, tmp_path):
    from transformers import AutoTokenizer, BertConfig, BertModel

    BertModel(BertConfig.from_pretrained(tiny_bert, max_position_embeddings=200)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert, model_max_length=200).save_pretrained(tmp_path)
    metric = get_metric(f"cosine:{tmp_path}", device="cpu", precision="fp32")
    encoder = metric._loaded("cpu")
    assert encoder.max_tokens == longest_input(encoder.backbone.config, encoder.tokenizer)
    assert encoder.max_tokens == 200
    words = " ".join(["dog"] * 140)
    changed = CaptionSample(f"{words} cat cat cat", (f"{words} dog dog dog",))
    assert metric.score([changed])[0] < 1 - 1e-5


def test_of_a_trained_model_as_much_as_it_was_trained_on(model_folder):
    from suisei.metrics.loading import load

    metric = get_metric(f"cosine:{model_folder}", device="cpu", precision="fp32")
    assert metric._loaded("cpu").max_tokens == load(model_folder, device="cpu").regressor.text.max_tokens


def test_no_bar_is_drawn_while_an_encoder_is_read(tiny_bert, monkeypatch):
    from transformers import AutoModel
    from transformers.utils import logging

    bar, seen, read = [True], [], AutoModel.from_pretrained
    monkeypatch.setattr(logging, "is_progress_bar_enabled", lambda: bar[0])
    monkeypatch.setattr(logging, "disable_progress_bar", lambda: bar.__setitem__(0, False))
    monkeypatch.setattr(logging, "enable_progress_bar", lambda: bar.__setitem__(0, True))
    monkeypatch.setattr(AutoModel, "from_pretrained", lambda *a, **k: seen.append(bar[0]) or read(*a, **k))
    get_metric(f"cosine:{tiny_bert}", device="cpu").score(SAMPLES[:1])
    get_metric(f"bertscore:{tiny_bert}", device="cpu", num_layers=1).score(SAMPLES[:1])
    assert (seen, bar) == ([False, False], [True])


def test_signatures_tell_revisions_of_one_hub_name_apart(tiny_bert, tmp_path, monkeypatch):
    """What is kept under the signature of one revision is not taken for scores of another."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repository, signatures = tmp_path / "models--org--encoder", set()
    (repository / "refs").mkdir(parents=True)
    for commit in ("1" * 40, "2" * 40):
        shutil.copytree(tiny_bert, repository / "snapshots" / commit)
        (repository / "refs" / "main").write_text(commit)
        for metric in ("cosine", "bertscore"):
            signature = get_metric(f"{metric}:org/encoder", device="cpu").signature
            assert signature.startswith(f"{metric}|model:org/encoder@{commit[:12]}|")
            signatures.add(signature)
    assert len(signatures) == 4
