"""SPICE by the Java program inside pycocoevalcap."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import UnavailableError
from suisei.metrics import java
from suisei.metrics.ngrams import TokenMetric

CORENLP_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
CORENLP_URL = "https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"


def spice_reason() -> str | None:
    """Return why SPICE cannot run here, or None if it can; names the files that are missing."""
    reason = java.pycocoevalcap_reason()
    if reason:
        return reason
    folder = java.package_folder() / "spice" / "lib"
    absent = [jar for jar in CORENLP_JARS if not (folder / jar).is_file()]
    if not absent:
        return None
    return (
        f"needs {' and '.join(absent)} in {folder}: unpack {CORENLP_URL} and copy the file(s) of that "
        f"name from its folder stanford-corenlp-full-2015-12-09 there"
    )


class Spice(TokenMetric):
    """SPICE (Anderson et al., 2016): F-score of scene-graph propositions, 0 to 1; English only.

    Captions in which SPICE finds no proposition, on both sides, score 0. Java runs once per call;
    its cache of parses is not used, so that nothing is written into the installed packages.

    Args:
        tokenizer: see :func:`suisei.metrics.tokenizers.get_tokenizer`.
        timeout: seconds that a whole call may take.
        memory: Java's heap limit.

    Raises:
        UnavailableError: Java, pycocoevalcap or the CoreNLP 3.6.0 files are missing, or Java fails.
    """

    name = "spice"
    language = "en"

    def __init__(self, tokenizer: str = "auto", timeout: float = 7200.0, memory: str = "8G") -> None:
        java.require(spice_reason(), "SPICE")
        super().__init__(tokenizer)
        self.timeout = timeout
        self.memory = memory

    def settings(self) -> dict[str, str]:
        """Return tokenizer and SPICE's version."""
        return {**super().settings(), "spice": "1.0"}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        entries = [
            {
                "image_id": position,
                "test": " ".join(sample.candidate),
                "refs": [" ".join(reference) for reference in sample.references],
            }
            for position, sample in enumerate(self.tokenize(samples))
        ]
        folder = java.package_folder() / "spice"
        with tempfile.TemporaryDirectory() as scratch:
            source, target = Path(scratch) / "captions.json", Path(scratch) / "scores.json"
            source.write_text(json.dumps(entries), encoding="utf-8")
            program = [f"-Xmx{self.memory}", "-jar", "spice-1.0.jar"]
            options = [str(source), "-out", str(target), "-subset", "-silent"]
            java.run_java([*program, *options], "SPICE", self.timeout, folder=folder)
            return _read_spice(target, len(samples))


def _read_spice(path: Path, count: int) -> np.ndarray:
    """Return the F-scores in the order of the ids 0 to ``count`` - 1.

    Raises:
        UnavailableError: there is no result, or not one for every caption.
    """
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        scores = {int(item["image_id"]): item["scores"]["All"]["f"] for item in results}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"SPICE wrote no readable result: {type(error).__name__} {error}") from error
    if sorted(scores) != list(range(count)):
        raise UnavailableError(f"SPICE returned {len(scores)} scores for {count} captions")
    values = [scores[position] for position in range(count)]
    return np.array([float(value) if isinstance(value, int | float) else 0.0 for value in values])
