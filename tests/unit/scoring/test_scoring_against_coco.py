"""The corpus summary of `suisei score` has the numbers that pycocoevalcap prints for the same captions."""

import json
import random
import shutil

import pytest

from suisei.cli import run_command
from suisei.commands.score import main

pytest.importorskip("pycocoevalcap")

WORDS = {"en": ["dog", "cat", "red", "runs", "on", "the", "a", "grass", "two", "ball"],
         "ja": ["犬", "猫", "赤い", "走る", "草", "二", "球", "が", "の", "で"]}  # fmt: skip


@pytest.fixture(params=["en", "ja"])
def corpus(request, tmp_path):
    """Captions of words between spaces, so that any tokenizer gives the same tokens."""
    rng = random.Random(7)

    def caption() -> str:
        return " ".join(rng.choices(WORDS[request.param], k=rng.randint(3, 12)))

    rows = [
        {"id": f"c{i}", "candidate": caption(), "references": [caption() for _ in range(rng.randint(1, 5))]}
        for i in range(60)
    ]
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, rows


def summary_of(path, metrics, window="7"):
    summary = path.with_name("summary.json")
    code = run_command(main, [
        "--metrics", metrics, "--tokenizer", "whitespace", "--input", str(path), "--window", window,
        "--output", str(path.with_name("scores.jsonl")), "--summary", str(summary),
    ])  # fmt: skip
    assert code == 0
    return {name: entry["corpus"] for name, entry in json.loads(summary.read_text())["metrics"].items()}


def test_corpus_scores_are_those_of_pycocoevalcap(corpus, capsys):
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    path, rows = corpus
    ours = summary_of(path, "bleu-1,bleu-2,bleu-3,bleu-4,rouge-l,cider")
    references = {i: row["references"] for i, row in enumerate(rows)}
    candidates = {i: [row["candidate"]] for i, row in enumerate(rows)}
    bleu, _ = Bleu(4).compute_score(references, candidates, verbose=0)
    assert [ours[f"bleu-{n}"] for n in (1, 2, 3, 4)] == pytest.approx(bleu, abs=1e-9)
    assert ours["rouge-l"] == pytest.approx(Rouge().compute_score(references, candidates)[0], abs=1e-9)
    assert ours["cider"] == pytest.approx(Cider().compute_score(references, candidates)[0], abs=1e-9)
    assert f"{bleu[3]:.4f}" in capsys.readouterr().err


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="needs a Java runtime")
@pytest.mark.parametrize("corpus", ["en"], indirect=True)
def test_meteor_is_that_of_pycocoevalcap(corpus):
    from pycocoevalcap.meteor.meteor import Meteor

    path, rows = corpus
    ours = summary_of(path, "meteor", window="100")["meteor"]
    references = {i: row["references"] for i, row in enumerate(rows)}
    candidates = {i: [row["candidate"]] for i, row in enumerate(rows)}
    assert ours == pytest.approx(Meteor().compute_score(references, candidates)[0], abs=1e-9)
