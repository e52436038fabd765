"""Windows, isolation of bad samples and dying metrics, corpus scores that add up, summaries."""

import math

import numpy as np
import pytest
from PIL import Image

from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_metric
from suisei.scoring.corpus import CorpusScore, summands
from suisei.scoring.digest import BAD_ROW, row_digest
from suisei.scoring.resume import match_finished
from suisei.scoring.stream import ScoredRow, Scorer, windows
from suisei.scoring.summary import RowCounts, general_reason, summary


class Number(Metric):
    """Scores the number that a caption ends in, refuses 13, dies of 666; reads images if told to."""

    name = "number"

    def __init__(self, needs=()):
        self.needs = frozenset(needs)
        self.calls = []

    def _score(self, samples, *, batch_size, progress):
        self.calls.append(len(samples))
        values = [float(sample.candidate.split()[-1]) for sample in samples]
        if "image" in self.needs:
            for sample in samples:
                from suisei.data.images import load_image

                load_image(sample.image)
        if 13 in values:
            raise DataError("unlucky")
        if 666 in values:
            raise OSError("the child process went away")
        return np.array(values)


def rows(*values, **fields):
    return [Row(n, f"r{n}", CaptionSample(f"x {v}", **fields), None) for n, v in enumerate(values, 1)]


def test_windows_cut_a_stream_and_end_with_its_error():
    def stream():
        yield from rows(1, 2, 3, 4, 5)
        raise DataError("the rest is unreadable")

    pending = windows(stream(), 2)
    assert [[row.number for row in next(pending)] for _ in range(3)] == [[1, 2], [3, 4], [5]]
    with pytest.raises(DataError, match="the rest"):
        next(pending)


def test_windows_read_no_further_than_the_window_that_is_asked_for():
    taken = []

    def stream():
        for row in rows(*range(100)):
            taken.append(row.number)
            yield row

    pending = windows(stream(), 7)
    for count in range(1, 5):
        assert len(next(pending)) == 7
        assert len(taken) == 7 * count


def test_refused_samples_cost_only_their_own_score():
    metric = Number()
    scored = Scorer({"number": metric}, "in.jsonl").score(rows(*range(40)))
    assert [row.number for row in scored if row.error] == [14]
    assert scored[13].error == "number: unlucky"
    assert str(scored[13].stop) == "in.jsonl, row 14: unlucky"
    assert [row.scores["number"] for row in scored if not row.error] == [v for v in range(40) if v != 13]
    assert len(metric.calls) < 20


def test_unreadable_images_are_found_without_halving(tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    Image.new("RGB", (8, 8)).save(good)
    bad.write_bytes(good.read_bytes()[:40])
    metric = Number({"image"})
    window = [
        Row(n, None, CaptionSample(f"x {n}", image=bad if n in (3, 9, 10) else good), None)
        for n in range(1, 12)
    ]
    scored = Scorer({"number": metric, "length": get_metric("length")}, "in").score(window)
    assert [row.number for row in scored if math.isnan(row.scores["number"])] == [3, 9, 10]
    assert all(math.isfinite(row.scores["length"]) for row in scored)
    assert "bad.png" in scored[2].error
    assert metric.calls == [11, 8]


def test_a_metric_that_dies_loses_its_column_and_no_other():
    metric = Number()
    scorer = Scorer({"number": metric, "length": get_metric("length")}, "in")
    first = scorer.score(rows(1, 2))
    second = scorer.score(rows(3, 666))
    third = scorer.score(rows(5, 6))
    assert [row.scores["number"] for row in first] == [1, 2]
    for row in (*second, *third):
        assert math.isnan(row.scores["number"])
        assert math.isfinite(row.scores["length"])
        assert row.error == "number: OSError: the child process went away"
        assert row.stop is None
    assert len(metric.calls) == 2  # a dead metric is not called again
    assert list(scorer.failed) == ["number"]


def test_what_a_metric_needs_and_a_sample_lacks_is_named_for_both_metrics_at_once():
    scorer = Scorer({"bleu-4": get_metric("bleu-4"), "cider": Number({"references"})}, "in")
    (row,) = scorer.score(rows(1))
    assert row.error == "bleu-4, cider: no references"
    assert row.stop is None


def test_a_bad_row_keeps_its_place():
    window = rows(1, 2, 3)
    window[1] = Row(2, None, None, DataError("in, row 2: candidate is\nempty"))
    scored = Scorer({"number": Number()}, "in").score(window)
    assert [row.id for row in scored] == ["r1", 2, "r3"]
    assert scored[1].error == "in, row 2: candidate is empty"


@pytest.mark.parametrize("name", ["bleu-1", "bleu-4", "rouge-l", "chrf", "sacrebleu"])
def test_corpus_scores_of_windows_equal_those_of_the_whole(name):
    metric = get_metric(name)
    rng = np.random.default_rng(0)
    words = ["a", "red", "ball", "on", "the", "small", "table", "near", "two", "dogs"]
    samples = [
        CaptionSample(" ".join(rng.choice(words, 6)), [" ".join(rng.choice(words, 7)) for _ in range(2)])
        for _ in range(50)
    ]
    scores = metric.score(samples)
    corpus = CorpusScore(metric)
    for start in range(0, 50, 7):
        corpus.add(samples[start : start + 7], scores[start : start + 7])
    assert corpus.value() == pytest.approx(metric.corpus_score(samples, scores), abs=1e-12)
    assert corpus.mean == pytest.approx(scores.mean(), abs=1e-12)
    assert corpus.count == 50


def test_bleu_keeps_no_samples_for_its_corpus_score():
    corpus = CorpusScore(get_metric("bleu-4"))
    samples = [CaptionSample("a red ball", ["a blue ball"])] * 10
    corpus.add(samples, corpus.metric.score(samples))
    assert corpus._kept == []


def test_a_corpus_score_that_is_no_sum_is_made_of_all_samples_and_scores():
    class Joined(Number):
        def corpus_score(self, samples, scores):
            return 100 * len([sample.candidate for sample in samples]) + float(np.max(scores))

    corpus, samples = CorpusScore(Joined()), [row.sample for row in rows(1, 7, 1)]
    for part in (samples[:2], samples[2:]):
        corpus.add(part, corpus.metric.score(part))
    assert (corpus.count, corpus.mean, corpus.value()) == (3, 3.0, 307.0)


def test_a_sample_without_a_score_adds_nothing_to_a_mean():
    samples = [row.sample for row in rows(1, 2, 6)]
    parts = summands(Number(), samples, np.array([1.0, math.nan, 6.0]))
    np.testing.assert_array_equal(parts.rows, [[1, 1], [math.nan, math.nan], [6, 1]])
    assert parts.score(np.nansum(parts.rows, axis=0)[None]).tolist() == [3.5]


def test_an_empty_corpus_has_no_score():
    corpus = CorpusScore(get_metric("bleu-4"))
    corpus.add([], np.array([]))
    assert corpus.mean is None
    assert corpus.value() is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("a, b.csv, row 7: rating 9 is outside the scale 1 to 5; x", "rating … is outside the scale … to …"),
        ("in, row 3: image 'a: b.png' is not there: no file /x; fix", "image '…' is not there"),
        ("in, row 12: id 'row 3: x' is used by an earlier row; every", "id '…' is used by an earlier row"),
        ("/some/image 2.png: the image cannot be decoded (x)", "the image cannot be decoded"),
        ("v.mp4: the segment 90 to 99 s begins after", "the segment … to … s begins after"),
        ("the value 3.5: x", "the value …"),
        ("no references", "no references"),
        ("in, row 1: candidate has 100,000 characters, more", "candidate has … characters, more"),
    ],
)  # fmt: skip
def test_reasons_are_general(error, reason):
    assert general_reason(error) == reason


def test_a_summary_counts_rows_reasons_and_scores():
    window = rows(1, 2, 13, 4)
    window[1] = Row(2, None, None, DataError("in, row 2: rating 9 is outside the rating scale 1 to 5"))
    window.append(Row(5, None, None, DataError("in, row 5: rating 7 is outside the rating scale 1 to 5")))
    scorer, counts = Scorer({"number": Number()}, "in"), RowCounts()
    scored = scorer.score(window)
    scorer.add_to_corpora(window, scored)
    counts.add(scored)
    content = summary(counts, scorer.corpora, {"number": "number|x"}, scorer.failed)
    assert content["rows"] == 5
    assert content["bad_rows"] == {"rating … is outside the rating scale … to …": 2}
    assert content["metrics"]["number"] == {
        "n": 2, "mean": 2.5, "corpus": 2.5, "skipped": {"unlucky": 1}, "error": None, "signature": "number|x",
    }  # fmt: skip


def test_the_number_of_different_reasons_is_bounded():
    counts = RowCounts()
    words = [chr(97 + i) + chr(97 + j) for i in range(20) for j in range(20)]
    counts.add([ScoredRow(n, n, {}, bad=f"strange {word}") for n, word in enumerate(words)])
    assert len(counts.bad) <= 51
    assert counts.bad.total() == 400


def test_finished_records_must_belong_to_the_input():
    window = rows(1, 2, 3)
    digests = [row_digest(row) for row in window]
    records = [
        {"id": "r1", "error": None, "scores": {"a": 1.0, "b": 2.0}, "digest": digests[0]},
        {"id": "r2", "error": "a: no; b: x: y; b2, a: z", "scores": {"a": math.nan, "b": math.nan}}
        | {"digest": digests[1]},
    ]
    left = iter(records)
    matched = match_finished(window, left, ["a", "b"])
    assert [row.id for row in matched] == ["r1", "r2"]
    assert matched[1].errors == {"a": "no", "b": "x: y; b2, a: z"}
    with pytest.raises(DataError, match="row 1 of the input is 'r1', of the part file 'other'"):
        match_finished(window, iter([{**records[0], "id": "other"}]), ["a", "b"])
    with pytest.raises(DataError, match=r"row 1 of the input \('r1'\) is not what was scored"):
        match_finished(window, iter([{**records[0], "digest": digests[1]}]), ["a", "b"])


def test_a_finished_row_whose_image_was_never_there_stays_a_bad_one():
    """What was scored is missed once its image is gone; what was refused is refused again."""
    gone = Row(1, "r1", None, DataError("in, row 1: no image"), absent="in, row 1: no image")
    record = {"id": "r1", "error": "in, row 1: no image", "scores": {"a": math.nan}, "digest": BAD_ROW}
    [matched] = match_finished([gone], iter([record]), ["a"])
    assert (matched.bad, matched.errors) == (record["error"], {})
    with pytest.raises(DataError, match="is not there any more"):
        match_finished([gone], iter([{**record, "digest": "1" * len(BAD_ROW)}]), ["a"])


def test_kinds_of_rows_are_counted():
    counts = RowCounts()
    samples = [
        CaptionSample("a dog", references, image)
        for references in ((), ("two dogs",))
        for image in (None, Image.new("RGB", (2, 2)))
    ]
    counts.add((), [*samples, CaptionSample("a dog", ("犬",))])
    assert (counts.compared, counts.looked, counts.across) == (3, 1, 1)


def test_a_score_that_is_no_finite_number_is_none():
    scored = Scorer({"number": Number()}, "in.jsonl").score(rows("inf", 2, "-inf", "nan"))
    assert [row.scores["number"] for row in scored] == pytest.approx(
        [math.nan, 2, math.nan, math.nan], nan_ok=True
    )
    assert [row.error for row in scored] == ["number: no score", None, *["number: no score"] * 2]
