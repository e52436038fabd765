"""METEOR: real where Java is, and every way in which its program can fail."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import UnavailableError
from suisei.metrics import meteor
from suisei.metrics.registry import get_metric
from tests.unit.metrics.java_programs import SAMPLES, needs_java

STATISTICS = " ".join(["1.0"] * 23)


@pytest.fixture(autouse=True)
def _nothing_remembered():
    meteor._last_meteor._entry = None  # an earlier test's scores must not stand in for an answer


@needs_java
@pytest.mark.java
@pytest.mark.slow
def test_meteor_equals_pycocoevalcap():
    from pycocoevalcap.meteor.meteor import Meteor as CocoMeteor

    samples = [
        *SAMPLES,
        CaptionSample("!", ("a dog",)),
        CaptionSample("犬が公園を走る", ("犬が走る", "公園の犬"), language="ja"),
        CaptionSample("the dog is brown", ("the dog is brown", "a cat")),  # matched whole: counts no chunk
        CaptionSample("is brown the dog", ("the dog is brown",)),  # matched whole too, in two chunks
        CaptionSample("a red car", ("a red car on a road",)),  # one chunk, and not all of the reference
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
    metric = meteor.Meteor(tokenizer="whitespace")
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


def test_java_is_started_for_one_thread_after_the_other(fake_java, tmp_path):
    # together they share the cores, and the slowest of many is late for its first answer
    fake_java(
        "import os\n"
        f"os.close(os.open({str(tmp_path / 'starting')!r}, os.O_CREAT | os.O_EXCL))  # fails beside another\n"
        "time.sleep(0.3)\n"
        "for count, line in enumerate(sys.stdin):\n"
        f"    count or os.unlink({str(tmp_path / 'starting')!r})\n"
        f"    print('{STATISTICS}' if line[0] == 'S' else '1\\n1', flush=True)"
    )
    metric = meteor.Meteor(tokenizer="whitespace")
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(metric.score, [CaptionSample(word, ("r",))]) for word in "abc"]
    assert [job.result().tolist() for job in jobs] == [[1]] * 3


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
        meteor.Meteor(timeout=30).score(SAMPLES[:1])


def test_scores_of_captions_that_are_cut_again_are_not_those_of_others(fake_java):
    fake_java(
        "for line in sys.stdin:\n"
        "    told = [' '.join(['1'] * 23)] if line[0] == 'S' else ['1' if '-norm' in sys.argv else '0'] * 2\n"
        "    print('\\n'.join(told), flush=True)"
    )
    found = [meteor.Meteor("whitespace", normalize=own).score(SAMPLES[:1])[0] for own in (True, False)]
    assert found == [1, 0]


def test_meteor_that_hangs_is_stopped(fake_java):
    fake_java("print('loading', file=sys.stderr, flush=True)\ntime.sleep(60)")
    with pytest.raises(UnavailableError, match=r"(?s)no answer within 1 s.*loading"):
        meteor.Meteor(timeout=1.0).score(SAMPLES)


def test_meteor_leaves_no_process_behind(fake_java, monkeypatch):
    fake_java("time.sleep(60)")
    started = []
    monkeypatch.setattr(
        meteor.subprocess,
        "Popen",
        lambda *a, _popen=meteor.subprocess.Popen, **k: started.append(_popen(*a, **k)) or started[-1],
    )
    with pytest.raises(UnavailableError):
        meteor.Meteor(timeout=0.5).score(SAMPLES)
    assert [process.poll() is not None for process in started] == [True]
    assert all(process.stdin.closed and process.stdout.closed for process in started)


def test_meteor_tells_of_progress_as_the_command_is_to(fake_java, monkeypatch, capfd):
    fake_java(
        "for line in sys.stdin:\n"
        "    parts = line.rstrip('\\n').split(' ||| ')\n"
        "    told = [' '.join(['1'] * 23)] if parts[0] == 'SCORE' else ['0.5'] * len(parts)\n"
        "    print('\\n'.join(told), flush=True)"
    )
    told, advances = [], []

    @contextmanager
    def progress_bar(what, total, *, shown: bool):
        told.append((what, total, shown))
        yield advances.append

    monkeypatch.setattr(meteor, "progress_bar", progress_bar)
    meteor.Meteor(tokenizer="whitespace").score(SAMPLES, progress=True)
    assert (told, advances) == ([("meteor", 2, True)], [1, 1])
    assert capfd.readouterr().err == ""
