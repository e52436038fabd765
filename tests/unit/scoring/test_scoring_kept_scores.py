"""Scores of an evaluation that are kept: no sample is scored twice, and none with another's score."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from suisei.data.image_bytes import ImageBytes
from suisei.data.images import load_image
from suisei.data.paths import try_lock
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry, get_metric
from suisei.scoring import kept_scores
from suisei.scoring.columns import KeptError, score_column
from suisei.scoring.kept_scores import KeptScores
from suisei.scoring.plan import MetricPlan


class Noting(Metric):
    """The caption's length times a factor; notes what it scores, dies and refuses when told to."""

    name = "noting"
    seen: list = []  # noqa: RUF012 - shared on purpose
    stop_at: str | None = None
    refuses: str | None = None

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def settings(self):
        return {"factor": str(self.factor)}

    def _score(self, samples, *, batch_size, progress):
        texts = [sample.candidate for sample in samples]
        if Noting.stop_at in texts:
            raise KeyboardInterrupt
        if Noting.refuses in texts:
            raise DataError(f"its image: cannot be read ({Noting.refuses})")
        Noting.seen += texts
        return np.array([self.factor * len(text) for text in texts])


class Reading(Noting):
    """Opens the images besides."""

    def _score(self, samples, **options):
        for sample in samples:
            load_image(sample.image)
        return super()._score(samples, **options)


class Declining(Metric):
    """Knows only once it has scored that it has none for some captions, as RECAP does."""

    name = "declining"

    def __init__(self):
        self.declined: set[str] = set()

    def missing(self, samples):
        return {n: f"declined {s.id}" for n, s in enumerate(samples) if s.candidate in self.declined}

    def _score(self, samples, *, batch_size, progress):
        self.declined |= {sample.candidate for sample in samples if sample.candidate.endswith("x")}
        return np.array([np.nan if s.candidate in self.declined else 1.0 for s in samples])


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setitem(REGISTRY, "noting", Entry(f"{__name__}:Noting", (), "a fake"))
    monkeypatch.setattr(kept_scores, "BLOCK", 4)
    for name, value in (("seen", []), ("stop_at", None), ("refuses", None)):
        monkeypatch.setattr(Noting, name, value)


SAMPLES = [CaptionSample(f"a dog {'x' * number}", ("a dog",)) for number in range(11)]
TEXTS = [sample.candidate for sample in SAMPLES]


def score(folder, samples=SAMPLES, **options):
    return score_column(MetricPlan("noting", options), samples, keep=KeptScores(folder))


def test_a_run_that_was_cut_off_goes_on_with_the_block_it_was_in(tmp_path):
    plain = score_column(MetricPlan("noting"), SAMPLES)
    Noting.seen.clear()
    Noting.stop_at = TEXTS[9]
    with pytest.raises(KeyboardInterrupt):
        score(tmp_path)
    assert Noting.seen == TEXTS[:8]
    Noting.stop_at = None
    again = score(tmp_path)
    assert Noting.seen == TEXTS
    assert again.scores.tolist() == plain.scores.tolist()
    assert score(tmp_path).scores.tolist() == plain.scores.tolist()
    assert Noting.seen == TEXTS
    assert len(list(tmp_path.iterdir())) == 1


def test_other_settings_and_samples_are_other_scores(tmp_path):
    one = score(tmp_path)
    two = score(tmp_path, factor=2.0)
    assert two.scores.tolist() == (2 * one.scores).tolist()
    other = [CaptionSample(f"{sample.candidate}!", sample.references) for sample in SAMPLES]
    assert score(tmp_path, other).scores.tolist() == (one.scores + 1).tolist()
    assert len(Noting.seen) == 3 * len(SAMPLES)


def test_scores_of_a_metric_fitted_to_another_corpus_are_others(tmp_path):
    """Of two corpora of one size, the signature is the same."""
    found = []
    for corpus in (["a dog", "a cat"], ["a dog", "xx"]):
        metric = get_metric("cider")
        metric.fit([CaptionSample("x", (text,)) for text in corpus])
        scores, *_ = KeptScores(tmp_path).score(metric, "cider", metric.signature, SAMPLES)
        found.append((metric.signature, scores.tolist()))
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]
    assert len(list(tmp_path.iterdir())) == 2


def test_images_in_memory_are_told_apart(tmp_path):
    for colour, seen in (("red", 1), ("blue", 2), ("red", 2)):
        score(tmp_path, [CaptionSample("a dog", image=Image.new("RGB", (8, 8), colour))])
        assert len(Noting.seen) == seen
    for content in (b"one", b"two"):  # what cannot be decoded is told apart too
        score(tmp_path, [CaptionSample("a dog", image=ImageBytes("same.png", content))])
    assert len(Noting.seen) == 4


@pytest.mark.parametrize("images", [False, True])  # which can be read, and are not named as the reason
def test_what_was_refused_is_so_again_without_being_tried(tmp_path, images):
    samples, kept = looked_at(tmp_path) if images else SAMPLES, tmp_path / "kept"
    Noting.refuses = TEXTS[5]
    first = score(kept, samples)
    Noting.refuses = None
    again = score(kept, samples)
    assert first.refused == again.refused == {5: f"its image: cannot be read ({TEXTS[5]})"}
    assert np.array_equal(first.scores, again.scores, equal_nan=True)
    assert TEXTS[5] not in Noting.seen


def looked_at(tmp_path):
    """Return eleven samples with images; two, of two blocks, are larger than a limit of 100 pixels."""
    samples = []
    for number, sample in enumerate(SAMPLES):
        path = tmp_path / f"{number}.png"
        side = {6: 30, 9: 60}.get(number, 8)
        Image.new("RGB", (side, side)).save(path)
        samples.append(replace(sample, image=path))
    return samples


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_refused_for_an_image_that_can_be_read_now_is_scored_with_its_block(
    tmp_path, monkeypatch, killed
):
    monkeypatch.setitem(REGISTRY, "noting", Entry(f"{__name__}:Reading", (), "a fake"))
    samples, kept = looked_at(tmp_path), tmp_path / "kept"
    plain = score_column(MetricPlan("noting"), samples)
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "100")
    if killed:
        Noting.stop_at = TEXTS[8]
        with pytest.raises(KeyboardInterrupt):
            score(kept, samples)
        Noting.stop_at = None
    else:
        assert list(score(kept, samples).refused) == [6, 9]
        Noting.seen.clear()
        assert list(score(kept, samples).refused) == [6, 9]
        assert Noting.seen == []  # as long as nobody has mended them
    monkeypatch.delenv("SUISEI_MAX_IMAGE_PIXELS")
    Noting.seen.clear()
    again = score(kept, samples)
    assert again.scores.tolist() == plain.scores.tolist()
    assert sorted(Noting.seen) == sorted(TEXTS[4:])
    Noting.seen.clear()
    assert score(kept, samples).scores.tolist() == plain.scores.tolist()
    assert Noting.seen == []
    assert len(list(kept.iterdir())) == 1


def test_what_is_refused_still_keeps_its_reason_while_another_block_is_scored(tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "noting", Entry(f"{__name__}:Reading", (), "a fake"))
    samples, kept = looked_at(tmp_path), tmp_path / "kept"
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "100")
    before = score(kept, samples).refused
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "1000")
    Noting.seen.clear()
    again = [score(kept, samples) for _ in range(2)]
    assert [column.refused for column in again] == [{9: before[9]}] * 2
    assert [np.flatnonzero(np.isnan(column.scores)).tolist() for column in again] == [[9]] * 2
    assert sorted(Noting.seen) == TEXTS[4:8]


def test_a_second_run_is_told_of_the_option_that_there_is(tmp_path):
    Noting.stop_at = TEXTS[9]
    with pytest.raises(KeyboardInterrupt):
        score(tmp_path)
    (part,) = tmp_path.glob("*.part")
    with part.open("ab") as stream:
        assert try_lock(stream)
        with pytest.raises(
            KeptError, match=r"another run is writing .*\.part; wait for it, or use another --keep$"
        ):
            score(tmp_path)


def test_a_damaged_file_is_scored_anew(tmp_path):
    whole = score(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text("\n".join(path.read_text().splitlines()[:3]) + "\n")
    assert score(tmp_path).scores.tolist() == whole.scores.tolist()
    assert len(Noting.seen) == 2 * len(SAMPLES)


def test_a_folder_that_cannot_be_written_ends_the_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written to"):
        KeptScores(tmp_path / "file")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("suisei.scoring.output.write_all", full)
    with pytest.raises(KeptError, match="No space left on device"):
        score(tmp_path / "kept")


def test_what_a_metric_finds_it_has_no_score_of_is_missing_as_without_keep_and_at_the_next_start(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(REGISTRY, "declining", Entry(f"{__name__}:Declining", (), "a fake"))
    samples = [CaptionSample(text, id=text) for text in ("a dog", "a fox", "a cat", "an ox", "an owl")]
    plan, keep = MetricPlan("declining", {}), KeptScores(tmp_path)
    plain, first, again = (score_column(plan, samples, keep=each) for each in (None, keep, keep))
    for column in (plain, first, again):
        assert column.missing == {"declined a fox": 1, "declined an ox": 1}
        assert column.refused == {}
        np.testing.assert_array_equal(column.scores, [1, np.nan, 1, np.nan, 1])


def test_what_a_sample_lacks_before_it_is_scored_is_not_kept_as_a_refusal(tmp_path):
    """Its reason may name the image, which would have its block scored again at every start."""
    samples = [CaptionSample(text, id=text) for text in ("a dog", "a fox", "an ox")]
    metric = Declining()
    metric.declined.add("an ox")
    KeptScores(tmp_path).score(metric, "declining", "declining", samples, batch_size=8, progress=False)
    [file] = tmp_path.rglob("*.jsonl")
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert ["error" in row for row in kept] == [False, True, False]
