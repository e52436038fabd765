"""Results with text that would like to be more than text."""

import numpy as np
import pytest
from PIL import Image

from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.report.parts import Rated, Result

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e \"'&"
LABELS = ("suisei", "<b onmouseover=alert(3)>$x$</b>", "cider")


@pytest.fixture(scope="session")
def rated(tmp_path_factory):
    """Twelve rated captions of six images in two languages by two systems, scored by three metrics."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("pictures")
    samples = []
    for number in range(12):
        path = folder / f"{number // 2}.png"
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(path)
        samples.append(
            CaptionSample(
                HOSTILE if number == 0 else ("赤いボールがある" if number % 2 else f"a ball {number}"),
                (HOSTILE, "犬"),
                path,
                Rating((float(number % 4), float((number + 1) % 4)), 0, 4),
                language="ja" if number % 2 else "en",
                system=("<i>one</i>", "two\u202e")[number % 2],
                group=str(number // 2),
                id=f"<id {number}>",
            )
        )
    human = np.array([sample.rating.mean for sample in samples])
    scores = {label: np.clip(human + 0.1 * rng.normal(size=12), 0, 1) for label in LABELS}
    scores["cider"] = 3 * rng.random(12)
    return Rated(samples, scores)


@pytest.fixture(scope="session")
def result(rated):
    """A result with everything that a page can show."""
    table = evaluation_table(
        rated.scores, rated.samples, EvaluationSettings(n_resamples=20), signatures={"suisei": HOSTILE},
        title=HOSTILE,
    )  # fmt: skip
    curves = {"train_loss": {1.0: 0.5, 2.0: 0.25}, "val_pearson": {2.0: 0.75}, f"val_{HOSTILE}": {1.0: 1.0}}
    facts = [("Command", f"suisei evaluate --data '{HOSTILE}'")]
    return Result(HOSTILE, {"results": table}, rated, curves, facts, notes=[HOSTILE], examples=3)
