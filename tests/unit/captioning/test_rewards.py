"""Rewards: sums of metrics, and what they cost."""

import math
from pathlib import Path

import numpy as np
import pytest

from suisei.captioning import rewards
from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.reward_terms import Term, parse_reward
from suisei.captioning.rewards import CaptionReward, folders_of
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, UnavailableError
from suisei.metrics.registry import get_metric
from tests.unit.tiny_models import write_clip

REFERENCES = [["a red wall", "something red"], ["a blue wall", "blue things here"], ["赤い壁", "壁が赤い"]]
CAPTIONS = [["a red wall", "red", "a dog"], ["a wall", "a wall", "blue blue"], ["赤い壁", "壁", "a cat"]]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("cider", [(1, "cider")]),
        ("CIDEr + 2*chrf", [(1, "cider"), (2, "chrf")]),
        ("pac-s++:a+cider", [(1, "pac-s++:a"), (1, "cider")]),
        ("cider+pac-s++", [(1, "cider"), (1, "pac-s++")]),
        ("pac-s+++cider", [(1, "pac-s++"), (1, "cider")]),
        ("1e-1*suisei:runs/a+b+0.5*pac-s:c*d", [(0.1, "suisei:runs/a+b"), (0.5, "pac-s:c*d")]),
    ],
)
def test_sums_are_read(text, terms):
    assert parse_reward(text) == tuple(Term(*term) for term in terms)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty term"),
        ("cider+", "no metric"),
        ("2*", "empty term"),
        ("x*cider", "no number above 0"),
        ("-1*cider", "no number above 0"),
        ("inf*cider", "no number above 0"),
        ("nan*cider", "no number above 0"),
        ("cider+CIDEr", "twice"),
        ("video-pac-s:x", "scores videos"),
        ("siuder", "no metric 'siuder'"),
    ],
)
def test_what_is_no_sum_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_reward(text)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("dual") / "clip", context=77)


def asked(reward, pictures, captions=CAPTIONS):
    return reward(captions, pictures[: len(captions)], REFERENCES[: len(captions)])


def fitted(text, **options):
    reward = CaptionReward(text, device="cpu", **options)
    reward.fit(
        [
            CaptionedImage(Path(f"{n}.png"), tuple(own), ("en", "en"), str(n))
            for n, own in enumerate(REFERENCES)
        ]
    )
    return reward


@pytest.mark.filterwarnings("ignore:.*English tokenizer.*")
def test_a_mixture_is_the_weighted_sum_of_what_the_metrics_say(pictures, clip):
    names = ["cider", f"pac-s:{clip}", f"ref-clip-s:{clip}", "chrf"]
    weights = [0.7, 0.3, 1.0, 0.01]
    reward = fitted("+".join(f"{w}*{name}" for w, name in zip(weights, names, strict=True)))
    found = asked(reward, pictures)
    flat = [CaptionSample(text, REFERENCES[n], pictures[n]) for n, own in enumerate(CAPTIONS) for text in own]
    expected = np.zeros(9)
    for weight, name, part in zip(weights, names, found.parts.values(), strict=True):
        metric = get_metric(name, **({"device": "cpu"} if ":" in name else {}))
        if metric.needs_fit:
            metric.fit([CaptionSample(own[0], own) for own in REFERENCES])
        scores = metric.score(flat)
        np.testing.assert_allclose(part.ravel(), np.maximum(scores, 0), atol=1e-6)
        expected += weight * np.maximum(scores, 0)
    np.testing.assert_allclose(found.total.ravel(), expected, atol=1e-6)
    assert list(found.parts) == ["cider", "pac-s", "ref-clip-s", "chrf"]
    assert found.skipped == 0


@pytest.mark.filterwarnings("ignore:.*English tokenizer.*")
def test_a_rows_reward_does_not_depend_on_its_batch(pictures, clip, model_folder):
    text = f"cider+ref-pac-s:{clip}+suisei:{model_folder}"
    options = ["suisei.precision=fp32", "ref-pac-s.precision=fp32"]
    together = asked(fitted(text, options=options), pictures).total
    alone = fitted(text, options=options)
    for n, own in enumerate(CAPTIONS):
        for k, caption in enumerate(own):
            one = alone([[caption]], [pictures[n]], [REFERENCES[n]]).total
            assert one[0, 0] == pytest.approx(together[n, k], abs=2e-6)


def test_an_image_and_a_caption_are_encoded_once(pictures, clip, monkeypatch):
    """Of all metrics together that score with the same encoder, and again in the next step."""
    reward = CaptionReward(f"pac-s:{clip}+ref-pac-s:{clip}", device="cpu")
    encoder = reward.metrics["pac-s"].encoder
    assert reward.metrics["ref-pac-s"].encoder is encoder
    images, texts = [], []
    tower, tokens = encoder.model.encode_image, encoder._encode_tokens
    monkeypatch.setattr(
        encoder.model, "encode_image", lambda x, *a, **k: images.append(len(x)) or tower(x, *a, **k)
    )
    monkeypatch.setattr(encoder, "_encode_tokens", lambda x: texts.append(len(x)) or tokens(x))
    captions = [[f"a dog {n} {k}" for k in range(5)] for n in range(2)]
    reward(captions, pictures[:2], REFERENCES[:2])
    assert sum(images) == 2
    assert sum(texts) == 10 + 4
    reward([[f"a cat {n} {k}" for k in range(5)] for n in range(2)], pictures[:2], REFERENCES[:2])
    assert sum(images) == 2
    assert sum(texts) == 20 + 4


def test_a_measure_without_a_tower_is_a_reward(pictures, tiny_diffusion, tmp_path, monkeypatch):
    pytest.importorskip("diffusers", reason="needs the extra recap")
    pytest.importorskip("piq", reason="needs the extra recap")
    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path))
    reward = CaptionReward(
        f"recap:ssim@{tiny_diffusion}", device="cpu", options=["recap.steps=1", "recap.images=1"]
    )
    assert np.isfinite(asked(reward, pictures, [["a red wall", "a dog"]]).total).all()


def test_suiseis_image_and_captions_are_encoded_once(pictures, model_folder, monkeypatch):
    reward = CaptionReward(f"suisei:{model_folder}", device="cpu", options=["suisei.precision=fp32"])
    metric = reward.metrics["suisei"]
    images, texts = [], []
    computed = metric._forward.features.computed
    of_images, of_captions = computed.of_images, computed.of_captions
    monkeypatch.setattr(computed, "of_images", lambda x, *a: images.append(len(x)) or of_images(x, *a))
    monkeypatch.setattr(computed, "of_captions", lambda x, *a: texts.append(len(x)) or of_captions(x, *a))
    for round_ in range(2):
        captions = [[f"a dog {n} {k} {round_}" for k in range(5)] for n in range(2)]
        reward(captions, pictures[:2], REFERENCES[:2])
    assert sum(images) == 2
    assert sum(texts) == 20 + 4


@pytest.mark.parametrize("name", ["pac-s++", "ref-pac-s++"])
def test_an_option_that_a_metric_lacks_is_named_as_a_reward_takes_it(clip, name):
    option = f"{name}.w=2.5"
    with pytest.raises(ConfigError) as error:
        CaptionReward(f"{name}:{clip}")
    assert f"--model.reward_options '[{option}]'" in str(error.value)
    assert CaptionReward(f"{name}:{clip}", options=[option]).metrics[name].w == 2.5


def test_captions_that_come_twice_are_scored_once(pictures, monkeypatch):
    from suisei.metrics.sacrebleu import ChrF

    seen = []
    original = ChrF._score
    monkeypatch.setattr(ChrF, "_score", lambda self, s, **o: seen.append(len(s)) or original(self, s, **o))
    found = asked(CaptionReward("chrf"), pictures)
    assert seen == [8]  # "a wall" stands twice under one image
    assert found.total[1, 0] == found.total[1, 1]


@pytest.mark.filterwarnings("ignore:.*English tokenizer.*")
def test_images_that_were_looked_at_ahead_are_not_looked_at_again(pictures, clip, monkeypatch):
    monkeypatch.setattr("suisei.encoders.memory.MEMORY_BYTES", 1)  # room is made for as many as there are
    reward = fitted(f"pac-s:{clip}+clip-s:{clip}+cider")
    expected = asked(fitted(f"pac-s:{clip}+clip-s:{clip}+cider"), pictures).total
    seen, done = [], []
    for model in {metric.encoder.model for metric in reward.metrics.values() if hasattr(metric, "encoder")}:
        monkeypatch.setattr(model, "encode_image", _noting(model.encode_image, seen))
    ahead = reward.looked_at_ahead(pictures[:3])
    reward.look_at(ahead, done.append)
    assert done == [3]
    assert sum(seen) == 3
    np.testing.assert_allclose(asked(reward, pictures).total, expected, atol=1e-6)
    assert sum(seen) == 3
    monkeypatch.setattr(rewards, "LOOK_AHEAD", 2)
    assert not reward.looked_at_ahead(pictures[:3])
    assert not fitted("cider").looked_at_ahead(pictures[:2])


def _noting(encode, seen):
    def noting(pixels, *more, **named):
        seen.append(len(pixels))
        return encode(pixels, *more, **named)

    return noting


def test_images_may_have_different_numbers_of_captions(pictures):
    reward, captions = fitted("rouge-l"), [["a red wall", " "], ["a blue wall"], []]
    found = asked(reward, pictures, captions)
    whole = asked(reward, pictures, [["a red wall", " "], ["a blue wall", "a dog"]])
    np.testing.assert_array_equal(
        found.total, [whole.total[0], [whole.total[1, 0], math.nan], [math.nan] * 2]
    )
    np.testing.assert_array_equal(found.empty, [[False, True], [False, False], [False, False]])


def test_captions_without_a_word_get_the_lowest_reward(pictures):
    captions = [["", "a red wall", " "], ["a dog", "。", "a wall"], ["", "", ""]]
    found = asked(CaptionReward("chrf+0.5*repetition-1"), pictures, captions)
    assert found.empty.tolist() == [[True, False, True], [False, True, False], [True, True, True]]
    lowest = 0 + 0.5 * -1
    assert (found.total[found.empty] == lowest).all()
    assert (found.total >= lowest).all()
    assert found.skipped == 0
    chosen = asked(CaptionReward("chrf", lowest=30), pictures, captions).total
    assert chosen.min() == 30
    assert (chosen[found.empty] == 30).all()


def test_rows_that_a_metric_refuses_have_no_reward_and_are_counted(pictures, clip, tmp_path):
    torn = tmp_path / "torn.png"
    torn.write_bytes(pictures[0].read_bytes()[:60])
    found = CaptionReward(f"pac-s:{clip}+chrf", device="cpu")(
        CAPTIONS[:2], [pictures[0], torn], REFERENCES[:2]
    )
    assert np.isnan(found.total).tolist() == [[False] * 3, [True] * 3]
    assert not np.isnan(found.parts["chrf"]).any()
    assert found.skipped == 3
    assert sum(found.problems.values()) == found.skipped  # one of them twice
    assert "torn.png" in next(iter(found.problems))


def test_a_score_that_is_infinite_is_none(pictures, monkeypatch):
    monkeypatch.setattr(
        "suisei.metrics.sacrebleu.ChrF._score", lambda self, s, **o: np.full(len(s), math.inf)
    )
    assert asked(CaptionReward("chrf"), pictures).skipped == 9


def test_a_caption_too_long_to_be_one_is_a_row_without_reward(pictures):
    found = CaptionReward("chrf")([["x" * 20_000, "a red wall"]], pictures[:1], REFERENCES[:1])
    assert np.isnan(found.total).tolist() == [[True, False]]
    assert found.problems


def test_distances_are_turned_and_ask_for_what_silence_gets():
    turned = CaptionReward("repetition-1")([["a a a a", "a b"]], [None], [["a"]])
    assert turned.total.tolist() == [[-0.75, 0.0]]
    with pytest.raises(DataError, match="2 images, captions of 1"):
        CaptionReward("chrf")([["a"]], [None, None], [["a"], ["b"]])


def test_a_distance_of_unknown_range_needs_the_lowest_reward(monkeypatch):
    from suisei.metrics.sacrebleu import ChrF

    monkeypatch.setattr(ChrF, "higher_is_better", False)
    with pytest.raises(ConfigError, match=r"chrf is a distance.*model\.lowest"):
        CaptionReward("chrf")
    assert CaptionReward("chrf", lowest=-100)([["", "a"]], [None], [["a"]]).total.tolist() == [[-100, -100]]
    monkeypatch.setattr(ChrF, "largest", 200.0)
    assert CaptionReward("chrf")([["", "a"]], [None], [["a"]]).total.tolist() == [[-200, -100]]


def test_what_a_reward_needs_and_reads(clip, tmp_path):
    assert CaptionReward(f"cider+pac-s:{clip}", device="cpu").needs == {"references", "image"}
    assert folders_of(f"cider+0.3*pac-s:{clip}+suisei:/no/such") == [str(clip)]
    with pytest.raises(UnavailableError, match="pac-s needs its trained weights"):
        CaptionReward("pac-s")
    with pytest.raises(ConfigError, match="CIDEr needs document frequencies"):
        CaptionReward("cider")([["a"]], [None], [["a"]])


def test_cider_counts_all_training_references(pictures):
    reward = fitted("cider")
    assert "3-documents" in reward.signatures["cider"]
    assert reward.signatures["cider"].startswith("1*cider|")


def test_the_language_that_is_stated_decides_how_captions_are_cut_and_counted():
    """Not what their letters look like, of captions nor of the references that idf weights come from."""
    references = [("SUSHI-BAR", "SUSHI-BAR OPEN"), ("RAMEN SHOP", "A RAMEN SHOP"), ("BAR", "OPEN")]
    captions = [["SUSHI-BAR"], ["SHOP SUSHI-BAR"], ["OPEN BAR"]]

    def said(language, corpus_language):
        metric = get_metric("cider")
        metric.fit([CaptionSample(own[0], own, language=corpus_language) for own in references])
        samples = [
            CaptionSample(text, own, language=language)
            for (text,), own in zip(captions, references, strict=True)
        ]
        return metric.score(samples).tolist()

    reward = CaptionReward("cider")
    images = [CaptionedImage(Path(f"{n}.png"), own, ("ja", "ja"), f"{n}") for n, own in enumerate(references)]
    reward.fit(images, "ja")
    found = reward(captions, [None] * 3, references, "ja").total.ravel().tolist()
    assert found == said("ja", "ja")
    assert found != said("ja", None)
    assert found != said(None, "ja")


def test_a_metric_that_fails_is_named(pictures, monkeypatch):
    def fail(*_, **__):
        raise KeyError("weights")

    monkeypatch.setattr("suisei.metrics.base.Metric.score_each", fail)
    with pytest.raises(DataError, match="chrf failed: KeyError: 'weights'"):
        asked(CaptionReward("chrf", device="cpu"), pictures)
