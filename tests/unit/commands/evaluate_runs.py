"""What tests of the evaluate command share: a metric whose scores are known, and a run of the command."""

import json
from functools import partial

import numpy as np

from suisei.commands.evaluate import main
from suisei.metrics.base import Metric
from tests.unit import runs


class Fake(Metric):
    """Scores the number that a caption ends in, so that tests know every score."""

    name = "fake"
    higher_is_better = True

    def __init__(self, shift: float = 0.0, tokenizer: str = "plain", mode: str = "plain"):
        self.shift, self.tokenizer, self.mode = shift, tokenizer, mode
        self.fitted = mode != "fit"
        self.higher_is_better = mode != "distance"
        self.needs = frozenset({"references"} if mode == "references" else ())

    @property
    def needs_fit(self):
        return not self.fitted

    def fit(self, samples):
        assert all(sample.rating is None for sample in samples), "fitted on what it is evaluated on"
        self.fitted = True

    def settings(self):
        return {"tok": self.tokenizer}

    def _score(self, samples, *, batch_size, progress):
        if self.mode == "dies":
            raise OSError("the child process went away")
        values = np.array([float(sample.candidate.split()[-1]) for sample in samples]) + self.shift
        if self.mode == "infinite":
            values[:3] = -np.inf, np.nan, np.inf
        return -values if self.mode == "distance" else values


MODES = ("plain", "dies", "fit", "distance", "references", "infinite")

run = partial(runs.run, main)


def evaluate(ratings, tmp_path, *arguments):
    out = tmp_path / "out.json"
    code = run("--data", ratings, "--rating-scale", 1, 5, "--bootstrap", 20, "--json", out, *arguments)
    return code, json.loads(out.read_text()) if out.exists() else None


def rows_of(report, section=0):
    return {row["label"]: row for row in report["sections"][section]["rows"]}
