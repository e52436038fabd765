"""The metric for capevalkit, run by the real package on a benchmark of our own."""

import pytest

from suisei.adapters.capevalkit import caption_metric
from suisei.errors import DataError

capevalkit = pytest.importorskip("capevalkit", reason="needs capevalkit, an extra of development")


@pytest.fixture
def benchmark(given, monkeypatch):
    """Let capevalkit load our rows as its benchmark "flickr8k-expert", rated 1 to 5."""
    from capevalkit.infrastructure.benchmarks.legacy import BenchmarkItem
    from capevalkit.interfaces import python_api

    items = [
        BenchmarkItem(id=f"row-{n}", image=image or "", caption=caption, references=own, score=float(n))
        for n, (caption, own, image) in enumerate(
            zip(given.captions, given.references, given.images, strict=True)
        )
    ]
    monkeypatch.setattr(python_api, "load_benchmark", lambda *_, **__: items)
    return items


@pytest.mark.parametrize("spec", ["suisei:{}", "cider", "bleu-4"])
def test_scores_equal_the_commands(benchmark, command_scores, model_folder, spec):
    spec = spec.format(model_folder)
    result = capevalkit.evaluate_metric(
        benchmark="flickr8k-expert", metric=caption_metric(spec), metric_name="cider", score_key="cider"
    )
    expected = command_scores(spec)
    assert result["num_samples"] == len(expected)
    samples = capevalkit.load_samples("flickr8k-expert")
    found = caption_metric(spec)(samples)
    assert list(found) == [item.id for item in benchmark]
    assert list(found.values()) == pytest.approx(expected, abs=1e-9)


def test_distances_have_their_sign_turned_and_silence_is_the_worst():
    texts = {"good": "a dog", "bad": "a dog with a red hat and a red hat", "blank": ""}
    samples = [
        capevalkit.CaptionSample(id=n, image="", references=["a dog"], prediction=t) for n, t in texts.items()
    ]
    found = caption_metric("repetition-1")(samples)
    assert found == {"good": 0, "bad": pytest.approx(-4 / 10), "blank": -1}


def test_a_sample_that_cannot_be_scored_is_named(benchmark):
    samples = capevalkit.load_samples("flickr8k-expert")
    without = capevalkit.CaptionSample(id="lonely", image="", references=[], prediction="a dog")
    with pytest.raises(
        DataError, match="bleu-1 has no score for 1 of 6 samples; sample lonely: no references"
    ):
        caption_metric("bleu-1")([*samples, without])
    with pytest.raises(DataError, match="bleu-1 has no score for 1 of 1 sample; sample lonely"):
        caption_metric("bleu-1")([without])
    with pytest.raises(DataError, match="sample x has no prediction"):
        caption_metric("bleu-1")([capevalkit.CaptionSample(id="x", image="", references=["a"])])
    blank = capevalkit.CaptionSample(id="blank", image="gone.png", references=["a"], prediction="")
    assert caption_metric("bleu-1")([*samples, blank])["blank"] == 0
    absent = capevalkit.CaptionSample(id="absent", image="gone.png", references=["a dog"], prediction="a dog")
    assert caption_metric("bleu-1", images=False)([absent]) == {"absent": pytest.approx(1)}


@pytest.mark.parametrize(
    ("spec", "fields", "why"),
    [
        (
            "suisei",
            {"references": []},
            "suisei has no score for 1 of 2 samples; sample q7: no references and no",
        ),
        ("suisei:{}", {"image": "gone.png"}, "sample q7: .*gone.png"),
        ("bleu-1", {"prediction": "", "references": [" "]}, "sample q7: reference 1 is empty"),
        ("bleu-1", {"id": "other"}, "1 id stands for several samples, such as 'other'"),
    ],
)
def test_errors_name_the_sample_and_what_is_wrong_with_it(model_folder, spec, fields, why):
    plain = {"id": "q7", "image": "", "references": ["a dog"], "prediction": "a dog"}
    samples = [
        capevalkit.CaptionSample(**{**plain, "id": "other"}),
        capevalkit.CaptionSample(**plain | fields),
    ]
    with pytest.raises(DataError, match=why):
        caption_metric(spec.format(model_folder))(samples)


def test_a_blank_caption_changes_no_other_score():
    """Its references count in the document frequencies, as those of any other image."""

    def scores(second):
        texts = {"a": "a dog runs", "b": second, "c": "a cat"}
        references = {"a": ["a dog runs fast"], "b": ["two red cars"], "c": ["a cat sits"]}
        return caption_metric("cider")(
            [
                capevalkit.CaptionSample(id=n, image="", references=references[n], prediction=text)
                for n, text in texts.items()
            ]
        )

    with_it, blank = scores("two cars"), scores(" ")
    assert (blank["a"], blank["c"]) == (with_it["a"], with_it["c"])
    assert blank["b"] == 0 < with_it["b"]
