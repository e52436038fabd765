"""SPICE and the Java tokenizer: real where Java is, and every way in which Java can fail."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import UnavailableError
from suisei.metrics import java, spice
from suisei.metrics.registry import get_metric, unavailable_reason
from tests.unit.metrics.java_programs import SAMPLES, needs_java


@needs_java
@pytest.mark.java
def test_java_ptb_keeps_lines_apart():
    tokens = java.java_ptb(["A dog\nruns.\x85Now", "犬。", "\u00ad", "x\u2028y"])
    assert tokens == [["a", "dog", "runs", ".", "now"], ["犬", "。"], ["-"], ["x", "y"]]


def test_without_java_the_reason_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Java runtime" in unavailable_reason("meteor")
    assert "Java runtime" in unavailable_reason("spice")
    with pytest.raises(UnavailableError, match="metric 'meteor' needs a Java runtime"):
        get_metric("meteor")
    with pytest.raises(UnavailableError, match=r"ptb-java.*Java runtime"):
        get_metric("bleu-4", tokenizer="ptb-java")


def test_the_java_tokenizer_that_fails_says_so(fake_java):
    fake_java("sys.exit('bad jar')")
    with pytest.raises(UnavailableError, match=r"(?s)status 1.*bad jar"):
        java.java_ptb(["a"])
    fake_java("print('only one line')")
    with pytest.raises(UnavailableError, match="1 lines for 2 captions"):
        java.java_ptb(["a", "b"])
    fake_java("time.sleep(60)")
    with pytest.raises(UnavailableError, match=r"longer than 0\.5 s"):
        java.java_ptb(["a"], timeout=0.5)


def package_with_jars(tmp_path, monkeypatch, jars):
    folder = tmp_path / "pycocoevalcap"
    (folder / "spice" / "lib").mkdir(parents=True)
    for jar in jars:
        (folder / "spice" / "lib" / jar).touch()
    monkeypatch.setattr(java, "package_folder", lambda: folder)
    return folder


def test_spice_names_the_missing_jars_and_their_folder(fake_java, tmp_path, monkeypatch):
    fake_java("")
    folder = package_with_jars(tmp_path, monkeypatch, ["stanford-corenlp-3.6.0.jar"])
    reason = unavailable_reason("spice")
    assert reason.startswith(f"needs stanford-corenlp-3.6.0-models.jar in {folder / 'spice' / 'lib'}")
    assert spice.CORENLP_URL in reason
    with pytest.raises(UnavailableError, match=r"3\.6\.0-models\.jar"):
        get_metric("spice")


def test_spice_reads_scores_by_id(fake_java, tmp_path, monkeypatch):
    fake_java(
        "given = json.load(open(sys.argv[5]))\n"
        "lengths = [len(sample['test']) / 100 for sample in given]\n"
        "ids = [sample['image_id'] for sample in given]\n"
        "scores = [{'image_id': i, 'scores': {'All': {'f': f}}} for i, f in zip(ids, lengths)]\n"
        "scores[0]['scores']['All']['f'] = None\n"
        "json.dump(scores[::-1], open(sys.argv[7], 'w'))"
    )
    package_with_jars(tmp_path, monkeypatch, spice.CORENLP_JARS)
    samples = [
        CaptionSample("up", ("down",)),
        *SAMPLES,
        CaptionSample("犬", ("犬",)),
        CaptionSample("no refs"),
    ]
    metric = get_metric("spice")
    np.testing.assert_allclose(metric.score(samples), [0.0, 0.15, 0.05, np.nan, np.nan])
    assert metric.missing(samples) == {3: "spice reads English only", 4: "no references"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "no readable result"),
        ("open(sys.argv[7], 'w').write('[]')", "0 scores for 2 captions"),
        ("sys.exit('boom')", "boom"),
        ("open(sys.argv[7], 'w').write(json.dumps([{'image_id': 0}]))", "no readable result: KeyError"),
    ],
)
def test_spice_that_fails_says_so(fake_java, tmp_path, monkeypatch, body, message):
    fake_java(body)
    package_with_jars(tmp_path, monkeypatch, spice.CORENLP_JARS)
    with pytest.raises(UnavailableError, match=f"(?s){message}"):
        get_metric("spice").score(SAMPLES)
