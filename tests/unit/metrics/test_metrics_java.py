"""METEOR, SPICE and the Java tokenizer: real where Java is, and every way in which Java can fail."""

import shutil
import sys
import threading

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import UnavailableError
from suisei.metrics import java, spice
from suisei.metrics.registry import get_metric, unavailable_reason

pytest.importorskip("pycocoevalcap")
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs a Java runtime")

SAMPLES = [
    CaptionSample("a dog runs fast", ("a dog runs", "the dog")),
    CaptionSample("zebra", ("a red car", "one car on a road")),
]
STATISTICS = " ".join(["1.0"] * 23)


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Return a function that puts a Python script in Java's place."""

    def install(body: str) -> None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!{sys.executable}\nimport json, sys, time\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    java._last_meteor._entry = None  # an earlier test's scores must not stand in for an answer
    return install


@needs_java
@pytest.mark.java
@pytest.mark.slow
def test_meteor_equals_pycocoevalcap():
    from pycocoevalcap.meteor.meteor import Meteor as CocoMeteor

    samples = [
        *SAMPLES,
        CaptionSample("!", ("a dog",)),
        CaptionSample("犬が公園を走る", ("犬が走る", "公園の犬"), language="ja"),
        CaptionSample("two women are sitting ||| on\nbenches", ("a couple of women sit on a bench",)),
    ]
    metric = get_metric("meteor")
    tokenized = metric.tokenize(samples)
    references = {i: [" ".join(tokens) for tokens in one.references] for i, one in enumerate(tokenized)}
    candidates = {i: [" ".join(one.candidate).replace("|||", "")] for i, one in enumerate(tokenized)}
    coco = CocoMeteor()
    corpus, each = coco.compute_score(references, candidates)
    scores = metric.score(samples)
    np.testing.assert_allclose(scores, each, atol=1e-9)
    assert metric.corpus_score(samples, scores) == pytest.approx(corpus, abs=1e-9)
    # METEOR's normalization cuts Japanese into characters, so the tokenizer before it does not matter
    assert scores[3] > 0.2
    by_character = get_metric("meteor", tokenizer="character").score(samples[3:4])
    assert by_character == scores[3:4]
    words = get_metric("meteor", tokenizer="character", normalize=False)
    assert "meteor:1.5-en|ja:exact-tokens" in words.signature
    for pipe in (coco.meteor_p.stdin, coco.meteor_p.stdout, coco.meteor_p.stderr):
        pipe.close()


@needs_java
@pytest.mark.java
def test_java_ptb_keeps_lines_apart():
    tokens = java.java_ptb(["A dog\nruns.\x85Now", "犬。", "\u00ad", "x\u2028y"])
    assert tokens == [["a", "dog", "runs", ".", "now"], ["犬", "。"], ["-"], ["x", "y"]]


def test_meteor_scores_threads_apart(fake_java):
    # the score is the number of words of the candidate, so a mixed-up answer shows
    fake_java(
        "for line in sys.stdin:\n"
        "    parts = line.rstrip('\\n').split(' ||| ')\n"
        "    if parts[0] == 'SCORE':\n"
        "        print(' '.join([str(len(parts[-1].split()))] * 23), flush=True)\n"
        "    else:\n"
        "        for part in parts[1:]: print(part.split()[0])\n"
        "        print(0.5, flush=True)"
    )
    metric = java.Meteor(tokenizer="whitespace")
    results = {}

    def work(words):
        samples = [CaptionSample("w " * (words + i) + "w", ("r",)) for i in range(20)]
        results[words] = metric.score(samples)

    threads = [threading.Thread(target=work, args=(words,)) for words in (1, 30, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for words, scores in results.items():
        assert scores.tolist() == [words + i + 1 for i in range(20)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('no memory left')", r"stopped \(exit status 1\).*no memory left"),
        (
            f"sys.stdin.readline(); print('{STATISTICS}', flush=True); sys.stderr.write('heap'); sys.exit(3)",
            r"stopped \(exit status 3\).*heap",
        ),
        (
            "for line in sys.stdin: print('Error: specify SCORE', flush=True)",
            "answered 'Error: specify SCORE'",
        ),
        (
            f"for line in sys.stdin: print('{STATISTICS}' if line[0] == 'S' else 'x\\ny', flush=True)",
            "answered 'y' where a number",
        ),
        ("print('half', end='', flush=True)", "stopped"),
    ],
)
def test_meteor_that_dies_shows_what_java_said(fake_java, body, message):
    fake_java(body)
    with pytest.raises(UnavailableError, match=f"(?s){message}"):
        java.Meteor(timeout=30).score(SAMPLES[:1])


def test_meteor_that_hangs_is_stopped(fake_java):
    fake_java("print('loading', file=sys.stderr, flush=True)\ntime.sleep(60)")
    with pytest.raises(UnavailableError, match=r"(?s)no answer within 1 s.*loading"):
        java.Meteor(timeout=1.0).score(SAMPLES)


def test_meteor_leaves_no_process_behind(fake_java, monkeypatch):
    fake_java("time.sleep(60)")
    started = []
    monkeypatch.setattr(
        java.subprocess,
        "Popen",
        lambda *a, _popen=java.subprocess.Popen, **k: started.append(_popen(*a, **k)) or started[-1],
    )
    with pytest.raises(UnavailableError):
        java.Meteor(timeout=0.5).score(SAMPLES)
    assert [process.poll() is not None for process in started] == [True]
    assert all(process.stdin.closed and process.stdout.closed for process in started)


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
    monkeypatch.setattr(java, "_package_folder", lambda: folder)
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
    assert metric.missing(samples) == {3: "SPICE parses English only", 4: "no references"}


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
