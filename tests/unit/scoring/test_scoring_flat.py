"""What a long stream must not hold: corpus scores from sums, statistics fitted chunk by chunk."""

import gc

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.metrics import cider
from suisei.metrics.base import StreamFit, SummableCorpus
from suisei.metrics.registry import get_metric, unavailable_reason
from suisei.scoring.corpus import CorpusScore
from suisei.scoring.fitting import fit_metrics

WORDS = ("a", "red", "dog", "runs", "on", "the", "grass", "two", "cats", "sleep", "under", "table")


@pytest.fixture(scope="module")
def samples():
    generator = np.random.default_rng(0)

    def caption():
        return " ".join(generator.choice(WORDS, size=generator.integers(1, 9)))

    rows = [CaptionSample(caption(), [caption() for _ in range(1 + n % 3)], rating=0.5) for n in range(40)]
    return [*rows, CaptionSample("the dog", ["the dog"]), CaptionSample("犬が走る", ["犬が走っている", "犬"])]


@pytest.mark.parametrize(
    "name", ["chrf", "sacrebleu", "bleu-2", pytest.param("meteor", marks=pytest.mark.slow)]
)
def test_corpus_scores_come_from_sums_over_windows(name, samples):
    if unavailable_reason(name):
        pytest.skip(unavailable_reason(name))
    metric = get_metric(name)
    assert isinstance(metric, SummableCorpus)
    corpus = CorpusScore(metric)
    for start in range(0, len(samples), 5):
        window = samples[start : start + 5]
        corpus.add(window, metric.score(window))
    assert not corpus._kept
    whole = metric.score(samples)
    assert corpus.value() == pytest.approx(metric.corpus_score(samples, whole), rel=1e-9)
    assert corpus.value() != pytest.approx(whole.mean(), rel=1e-3)


def test_the_library_s_own_corpus_scores_are_met(samples):
    import sacrebleu

    texts = [sample.candidate for sample in samples]
    streams = [
        [s.references[place] if place < len(s.references) else None for s in samples] for place in range(3)
    ]
    metric = get_metric("chrf")
    expected = sacrebleu.corpus_chrf(texts, streams).score
    assert metric.corpus_score(samples, metric.score(samples)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_meteor_s_sum_is_what_meteor_itself_makes_of_all_lines(samples):
    if unavailable_reason("meteor"):
        pytest.skip(unavailable_reason("meteor"))
    from suisei.metrics.meteor import MeteorProcess, _summable

    with MeteorProcess() as process:
        lines = [process.statistics(sample.candidate, sample.references) for sample in samples]
        whole = [line for line in lines if line.split()[0] == line.split()[21]]
        assert whole
        expected = process.evaluate(lines)[1]
        total = " ".join(map(repr, _summable(lines).sum(axis=0).tolist()))
        scores, corpus = process.evaluate([total])
        assert scores == [pytest.approx(expected, rel=1e-12)]
        assert corpus == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_meteor_starts_java_once_for_many_windows(samples, monkeypatch):
    if unavailable_reason("meteor"):
        pytest.skip(unavailable_reason("meteor"))
    from suisei.metrics import meteor

    started = []

    class Counted(meteor.MeteorProcess):
        def __init__(self, *arguments, **options):
            started.append(self)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(meteor, "MeteorProcess", Counted)
    metric = get_metric("meteor")
    for start in range(0, len(samples), 7):
        metric.score(samples[start : start + 7])
    assert len(started) == 1
    assert started[0]._process.poll() is None
    del metric
    gc.collect()
    assert started[0]._process.poll() is not None


class Once:
    """Samples that can be asked for again, but are handed out one by one, without ratings."""

    def __init__(self, samples):
        self.samples = samples
        self.passes = 0

    def __call__(self):
        self.passes += 1
        return iter(self.samples)


def test_cider_is_fitted_in_chunks_as_on_all_samples(samples, monkeypatch):
    whole, streamed, other = get_metric("cider"), get_metric("cider"), get_metric("cider")
    whole.fit(samples)
    monkeypatch.setattr(cider, "_CHUNK", 4)
    assert isinstance(streamed, StreamFit)
    read = Once(samples)
    assert fit_metrics([streamed, other], read) == len(samples)
    assert read.passes == 2
    assert streamed.state() == other.state() == whole.state()


def test_what_streams_gets_no_ratings_either(samples):
    class Streamed:
        def fit_stream(self, given):
            self.given = list(given)

    metric = Streamed()
    assert samples[0].rating is not None
    assert fit_metrics([metric], Once(samples)) == len(samples)
    assert [sample.candidate for sample in metric.given] == [sample.candidate for sample in samples]
    assert all(sample.rating is None for sample in metric.given)


def test_what_cannot_stream_gets_all_samples_at_once_without_ratings(samples):
    class Whole:
        def fit(self, given):
            self.given = given

    metric = Whole()
    assert fit_metrics([metric], Once(samples)) == len(samples)
    assert [sample.candidate for sample in metric.given] == [sample.candidate for sample in samples]
    assert all(sample.rating is None for sample in metric.given)
