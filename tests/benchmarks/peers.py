"""The other environment's interpreter as a process that waits for its turn."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from suisei.data.sample import CaptionSample
from tests.benchmarks.harness import Options
from tests.benchmarks.inputs import HIDDEN, XLMR, tokenizer
from tests.benchmarks.plain import BATCH

MARK = "@@ "


class Peer:
    """unbabel-comet with random weights of the same architecture and the same tokenizer.

    Args:
        options: its interpreter, size and threads.
        rows: what it scores: candidate, and two references as source and reference.
        train_rows: what it is trained on.
        train_batch_size: samples per step.
    """

    def __init__(
        self,
        options: Options,
        rows: Sequence[CaptionSample],
        train_rows: Sequence[CaptionSample] = (),
        train_batch_size: int = BATCH,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="suisei-benchmark-")
        folder = Path(self._folder.name)
        encoder = folder / "encoder"
        tokenizer(options.root, options.size).save_pretrained(encoder)
        _name_the_tokenizer(encoder / "tokenizer_config.json")
        config = {"model_type": "xlm-roberta", **XLMR[options.size], "type_vocab_size": 1, "pad_token_id": 1}
        (encoder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        job = {
            "encoder": str(encoder),
            "hidden": HIDDEN[options.size],
            "batch_size": BATCH,
            "train_batch_size": train_batch_size,
            "threads": options.threads,
            "device": options.device,
            "rows": [_triple(row) for row in rows],
            "train_rows": [_triple(row) for row in train_rows],
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
        script = Path(__file__).with_name("peer_side.py")
        self._log = (folder / "log.txt").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(options.comet_python), str(script), str(folder / "job.json")],
            env={**kept, "OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.about = self._read()

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def run(self, command: str) -> float:
        """Return how many seconds it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return float(self._read()["seconds"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                return dict(json.loads(line[len(MARK) :]))
        self._log.seek(0)
        raise RuntimeError(f"the other side ended:\n{self._log.read()[-3000:]}")


def _triple(row: CaptionSample) -> dict[str, str]:
    return {"src": row.references[0], "mt": row.candidate, "ref": row.references[1]}


def _name_the_tokenizer(path: Path) -> None:
    """Let an older transformers read what a newer one wrote."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "XLMRobertaTokenizerFast"
    settings.pop("extra_special_tokens", None)
    path.write_text(json.dumps(settings), encoding="utf-8")
