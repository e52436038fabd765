"""The learned metric: a score depends on its own sample alone."""

import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.encoders.feature_cache import _ENTRY_BYTES, FeatureCache
from suisei.errors import ConfigError, DataError
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.loading import load
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models.folder import LoadedModel, save_model
from suisei.models.regressor import UNVARIED_SCALE
from suisei.models.table import Collator, SampleTable


@pytest.fixture
def metric(model_folder):
    return load(model_folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def samples(captions, pictures):
    rows = []
    for number in range(24):
        candidate = captions[number % 8] + (" again" if number >= 16 else "")
        references = tuple(captions[(number + k) % 8] for k in range(1, 1 + number % 4))
        rows.append(CaptionSample(candidate, references, [None, *pictures][number % 5]))
    return rows


def test_batched_single_and_shuffled_scores_agree(model_folder, metric, samples):
    together = metric.score(samples)
    assert together.dtype == np.float64
    assert together.shape == (24,)
    assert together.std() > 0.01
    for size in (1, 2, 7, 1000):
        fresh = load(model_folder, device="cpu")
        np.testing.assert_allclose(fresh.score(samples, batch_size=size), together, atol=1e-5)
    alone = [load(model_folder, device="cpu").score([sample])[0] for sample in samples[:6]]
    np.testing.assert_allclose(alone, together[:6], atol=1e-5)
    order = np.random.default_rng(0).permutation(24)
    fresh = load(model_folder, device="cpu")
    np.testing.assert_allclose(fresh.score([samples[i] for i in order]), together[order], atol=1e-5)


def test_repeated_samples_get_one_score(metric, samples):
    scores = metric.score([samples[6]] * 5 + [samples[1]] * 3)
    assert len(set(scores[:5])) == 1
    assert len(set(scores[5:])) == 1


def test_repeating_or_reordering_references_changes_nothing(metric, captions):
    plain, twice, turned = metric.score(
        ["two dogs"] * 3, references=[captions[:3], captions[:3] * 2, captions[2::-1]]
    )
    np.testing.assert_allclose([twice, turned], plain, atol=1e-6)


def test_idf_is_the_model_s_own(metric, captions):
    """Other samples in the call would change the score if idf were fitted on them."""
    alone = metric.score([captions[0]], references=[captions[1:2]])
    crowd = metric.score([captions[0], *["dogs"] * 50], references=[captions[1:2], *[captions[:4]] * 50])
    np.testing.assert_allclose(alone[0], crowd[0], atol=1e-6)


def test_references_and_image_each_matter_and_each_may_be_missing(metric, captions, pictures):
    scores = metric.score(
        ["two dogs"] * 5,
        references=[captions[:2], captions[:2], [], [], captions[2:4]],
        images=[pictures[0], None, pictures[0], None, pictures[0]],
    )
    assert np.all((scores > 0) & (scores < 1))
    assert len(set(scores.round(7))) == 5


def test_samples_scored_from_the_candidate_alone_are_counted(metric, caplog):
    with caplog.at_level(logging.WARNING):
        metric.score(["a", "b", "c"], references=[[], ["x"], []])
    assert "2 of 3 samples are scored from the candidate alone: no references and no image" in caplog.text


@pytest.mark.parametrize(
    ("image", "reason"),
    [(True, "no references and no image"), (False, "no references (this model reads no image)")],
)
def test_a_model_that_starts_from_the_cosine_has_no_score_for_a_candidate_alone(
    build_regressor, tmp_path, pictures, caplog, image, reason
):
    regressor = build_regressor(image=image, blocks=[], similarity=True, head={"start": "cosine"})
    save_model(tmp_path / "model", regressor)
    metric = load(tmp_path / "model", device="cpu", precision="fp32", cache="off")
    samples = [
        CaptionSample("two dogs"), CaptionSample("two dogs", ["a cat"]), CaptionSample("x", image=pictures[0])
    ]  # fmt: skip
    scores = metric.score(samples)
    assert np.isnan(scores).tolist() == [True, False, not image]
    assert metric.missing(samples) == dict.fromkeys([0] if image else [0, 2], reason)
    assert "candidate alone" not in caplog.text


def test_a_model_without_image_says_that_an_image_is_no_help(build_regressor, tmp_path, pictures, caplog):
    save_model(tmp_path / "blind", build_regressor(image=False))
    metric = load(tmp_path / "blind")
    with caplog.at_level(logging.WARNING):
        seen, unseen = metric.score(["a", "a"], images=[pictures[0], None])
    assert seen == unseen
    assert "2 of 2" in caplog.text
    assert "this model reads no image" in caplog.text
    assert "image:none" in metric.signature


@pytest.mark.parametrize(
    ("fusion", "image", "reads"),
    [
        ({}, True, {"references", "image"}),
        ({}, False, {"references"}),
        ({"blocks": ["candidate"]}, True, set()),
        ({"blocks": ["candidate", "image-product"]}, True, {"image"}),
        ({"blocks": ["candidate"], "similarity": True}, True, {"references"}),
        ({"blocks": ["candidate"], "image_similarity": True}, True, {"image"}),
        ({"blocks": ["candidate"], "extra_inputs": ["unigram-f1"]}, False, {"references"}),
        ({"blocks": ["candidate"], "extra_inputs": ["length"]}, False, set()),
    ],
)
def test_what_a_model_reads_is_what_its_score_depends_on(
    build_regressor, tmp_path, pictures, caplog, fusion, image, reads
):
    extras = ExtraInputs(fusion.get("extra_inputs", ()))
    save_model(tmp_path / "model", build_regressor(image=image, **fusion), extras=extras.state())
    metric = load(tmp_path / "model", device="cpu", precision="fp32", cache="off")
    assert metric.reads == reads
    with caplog.at_level(logging.WARNING):
        alone, referred, pictured = metric.score(
            ["two dogs"] * 3, [[], ["a cat sat"], []], [None, None, pictures[0]]
        )
    assert (referred != alone) == ("references" in reads)
    assert (pictured != alone) == ("image" in reads)
    assert f"{3 - len(reads)} of 3 samples are scored from the candidate alone" in caplog.text


PLAIN = {
    "「犬とふたりが走る」": "marks",
    "犬 と ふたり が 走る": "running-text",
    "犬とふたりが走る。": "running-text",
    "犬と2人が走る": "numbers",
}


@pytest.mark.parametrize("ways", [(), ("marks",), ("running-text",), ("numbers",), ("marks", "running-text")])
def test_captions_may_be_read_as_if_plainly_written(build_regressor, tmp_path, ways):
    fusion = {"similarity": True, "alignment": True, "extra_inputs": ["ridge"], "plain_writing": ways}
    rated = [
        CaptionSample(text, ("犬 が 走る。",), rating=len(text) / 9) for text in ("犬", "犬 が。", "猫が走る")
    ]
    extras = ExtraInputs(fusion["extra_inputs"])
    extras.fit_compute(rated, range(3))
    save_model(tmp_path / "model", build_regressor(**fusion), extras=extras.state())
    metric = load(tmp_path / "model", device="cpu", precision="fp32", cache="off")
    bare = CaptionSample("犬とふたりが走る", ("犬とふたりが公園を走る",))
    for text, way in PLAIN.items():
        reference = (
            text.replace("走", "公園を走") if way != "running-text" else "犬 と ふたり が 公園 を 走る 。"
        )
        for written in (replace(bare, candidate=text), replace(bare, references=(reference,))):
            one, two = metric.score([bare, written])
            plain = way in ways
            assert np.isclose(one, two, rtol=0, atol=1e-6) == plain
            one, two = metric.reference_cosines([bare, written])
            assert np.isclose(one, two, rtol=0, atol=1e-6) == plain
            own, inputs = metric.score_replaced(
                [bare, written], np.full((2, len(metric.input_columns())), np.nan)
            )
            assert np.isclose(*own, rtol=0, atol=1e-6) == plain
            assert (inputs[0] == inputs[1]).all() == plain
    assert metric.takes_over is not bool(ways)


def test_the_same_picture_under_another_name_or_in_memory_gives_the_same_score(metric, pictures, tmp_path):
    from PIL import Image

    copy = shutil.copy(pictures[0], tmp_path / "copy.png")
    one, other, memory = metric.score(["a"] * 3, images=[pictures[0], copy, Image.open(pictures[0])])
    assert one == other
    assert memory == pytest.approx(one, abs=1e-6)


def test_a_file_that_changed_is_read_again(metric, pictures, tmp_path):
    path = tmp_path / "image.png"
    shutil.copy(pictures[0], path)
    first = metric.score(["a"], images=[path])
    shutil.copy(pictures[2], path)
    assert metric.score(["a"], images=[path]) != first
    np.testing.assert_allclose(metric.score(["a"], images=[pictures[0]]), first, atol=1e-6)


def test_no_sample_is_no_score(metric):
    assert metric.score([]).shape == (0,)


@pytest.mark.parametrize(
    ("start", "blocks", "looked_at"),
    [("cosine", [], 1), ("cosines", [], 2), ("cosine", ["image-product"], 2), (None, ["candidate"], 0)],
)
def test_no_image_is_looked_at_that_counts_for_nothing(
    build_regressor, tmp_path, pictures, monkeypatch, start, blocks, looked_at
):
    model = build_regressor(
        text={"layers": "last"}, head={"start": start}, poolings=["mean"], blocks=blocks, similarity=True
    )
    save_model(tmp_path / "model", model.eval())
    metric = load(tmp_path / "model", device="cpu", precision="fp32", cache="off")
    computed = metric._forward.features.computed
    seen, of_images = [], computed.of_images

    def watched(images, *more):
        seen.extend(images)
        return of_images(images, *more)

    monkeypatch.setattr(computed, "of_images", watched)
    rows = [CaptionSample("two dogs", ("a ball",), pictures[0]), CaptionSample("two dogs", (), pictures[1])]
    metric.score(rows)
    assert len(seen) == looked_at


def test_missing_image_file_is_named(metric, tmp_path):
    with pytest.raises(DataError, match=r"absent\.png"):
        metric.score(["a"], images=[tmp_path / "absent.png"])


def test_unknown_precision_and_batch_size_are_refused(model_folder, metric):
    with pytest.raises(ConfigError, match="auto, fp32, tf32, bf16, fp16"):
        load(model_folder, precision="fp8")
    with pytest.raises(ConfigError, match="at least 1"):
        metric.score(["a"], batch_size=0)


def test_bf16_is_close(model_folder, metric, samples):
    half = load(model_folder, device="cpu", precision="bf16")
    np.testing.assert_allclose(half.score(samples), metric.score(samples), atol=0.05)
    assert "dtype:bf16" in half.signature


def test_scoring_leaves_the_random_numbers_alone(metric, samples):
    before = torch.get_rng_state()
    metric.score(samples)
    assert torch.equal(before, torch.get_rng_state())


def test_extra_inputs_and_their_gaps(build_regressor, tmp_path, captions):
    from suisei.metrics.extras import ExtraInputs

    model = build_regressor(image=False, extra_inputs=["cider", "length"])
    training = [CaptionSample(c, captions[:3]) for c in captions]
    extras = ExtraInputs(["cider", "length"])
    extras.fit(training)
    raw = torch.from_numpy(extras.compute(training))
    model.fit_extras(raw)
    torch.testing.assert_close(model.extra_mean, raw.mean(0))
    torch.testing.assert_close(model.extra_scale, raw.std(0))
    save_model(tmp_path / "model", model, extras=extras.state())
    metric = load(tmp_path / "model")
    direct = SuiSeiMetric(LoadedModel(model, extras.state(), "0", tmp_path))
    np.testing.assert_array_equal(metric.score(training), direct.score(training))
    scores = metric.score(["two dogs", "two dogs"], references=[captions[:2], []])  # CIDEr needs references
    assert np.isfinite(scores).all()
    alone = metric.score(["two dogs"], references=[captions[:2]])
    assert scores[0] == pytest.approx(alone[0], abs=1e-6)


def test_gaps_do_not_enter_the_mean_of_extra_inputs(build_regressor):
    model = build_regressor(image=False, extra_inputs=["length", "unigram-f1"])
    nan = float("nan")
    model.fit_extras(torch.tensor([[1.0, nan], [nan, nan], [3.0, nan]]))
    assert model.extra_mean.tolist() == [2.0, 0.0]
    assert model.extra_scale[0] == pytest.approx(2**0.5)
    assert model.extra_scale[1] == UNVARIED_SCALE
    seen = []
    handle = model.members[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1]))
    table = SampleTable([CaptionSample("a"), CaptionSample("b")], np.array([[3.0, nan], [nan, 0.5]]))
    batch = Collator(table, model.text.tokenize(table.captions), model.text.pad)([0, 1])
    with torch.no_grad():
        scores = model(batch)
    handle.remove()
    learned = model.missing_extra.detach()
    expected = torch.tensor([[1 / 2**0.5, learned[1]], [learned[0], 0.0]])
    torch.testing.assert_close(seen[0], expected)
    assert torch.isfinite(scores).all()


ITEM = 2 * 4 + _ENTRY_BYTES
"""Bytes that the cache counts for one item of two numbers."""


class Encoder:
    """Turns a text into its own features, and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, items):
        self.asked.append(list(items))
        return torch.tensor([[float(ord(item)), -float(ord(item))] for item in items])


def ask(cache, encoder, letters):
    features = cache.look_up(list(letters), list(letters), encoder)
    assert features[:, 0].tolist() == [ord(letter) for letter in letters]
    return features


def test_cache_never_gives_a_neighbour_s_features_and_encodes_once():
    cache, encoder = FeatureCache(10 * ITEM), Encoder()
    ask(cache, encoder, "abc")
    ask(cache, encoder, "cxab")
    assert encoder.asked == [["a", "b", "c"], ["x"]]


def test_cache_is_bounded_and_drops_the_least_recently_used():
    cache, encoder = FeatureCache(3 * ITEM), Encoder()
    ask(cache, encoder, "abc")
    ask(cache, encoder, "a")
    ask(cache, encoder, "d")  # b was used longest ago
    assert list(cache._row_of) == ["c", "a", "d"]
    ask(cache, encoder, "b")
    assert encoder.asked[-1] == ["b"]
    ask(cache, encoder, "ad")
    assert encoder.asked[-1] == ["b"]


def test_call_larger_than_the_cache_is_right_and_leaves_it_bounded():
    cache, encoder = FeatureCache(2 * ITEM), Encoder()
    ask(cache, encoder, "abcdef")
    assert len(cache._row_of) == 2
    ask(cache, encoder, "fa")
    assert encoder.asked == [list("abcdef"), ["a"]]


def test_cached_features_lie_in_one_block_within_the_bound():
    cache = FeatureCache(10 * ITEM)
    for letters in ("abcdef", "ghijkl", "mnopqr"):
        ask(cache, Encoder(), letters)
    assert cache._block.untyped_storage().nbytes() == 10 * 8
    assert sorted(cache._row_of.values()) == list(range(10))


def test_altering_a_result_does_not_alter_the_cache():
    cache, encoder = FeatureCache(10 * ITEM), Encoder()
    ask(cache, encoder, "ab").zero_()
    assert ask(cache, encoder, "ab")[:, 0].tolist() == [ord("a"), ord("b")]
    assert encoder.asked == [["a", "b"]]


def test_an_image_that_is_not_opened_costs_no_score(build_regressor, pictures, tmp_path):
    """Beside references this model looks at no image, whatever other samples do with the same file."""
    regressor = build_regressor(head={"start": "cosine"}, blocks=[], text={"layers": "last"})
    regressor.start.image.put(1.0, 0.1, 0.5)
    metric = SuiSeiMetric(LoadedModel(regressor, {}, "0" * 64, tmp_path), device="cpu", precision="fp32")
    torn = tmp_path / "torn.png"
    torn.write_bytes(pictures[0].read_bytes()[:60])
    compared = [CaptionSample("a dog", ("two dogs",), image) for image in (torn, tmp_path / "absent.png")]
    seen = [CaptionSample("a dog", (), image) for image in (torn, pictures[1])]
    scores, refused = metric.score_each([compared[0], seen[0], compared[1], seen[1]])
    assert list(refused) == [1]
    assert np.isfinite(scores[[0, 2, 3]]).all()
    assert scores[[0, 2]].tolist() == metric.score(compared).tolist()


def test_captions_longer_than_what_is_read_are_said_once(metric, caplog):
    limit = metric.regressor.text.max_tokens
    with caplog.at_level(logging.WARNING, logger="suisei.encoders.text"):
        metric.score(["a dog"], references=[["two dogs"]])
        assert not caplog.records
        metric.score(["dog " * (limit + 1)] * 2, references=[["two dogs"]] * 2)
        metric.score(["cat " * (limit + 1)], references=[["two dogs"]])
    assert [f"1 caption reaches the {limit} tokens" in record.message for record in caplog.records] == [True]
