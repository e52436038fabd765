"""METEOR, by its Java program inside pycocoevalcap."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, cast

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import UnavailableError
from suisei.metrics import java
from suisei.metrics.java import (
    LINE_ENDS,
    first_lines,
    package_folder,
    pycocoevalcap_reason,
    require,
)
from suisei.metrics.ngrams import LastCorpus, TokenMetric
from suisei.metrics.tokenizers import TokenizedSample
from suisei.progress import progress_bar

_STATISTICS = 23
_MEMORY = "2G"
"""Java's heap limit."""


class MeteorProcess:
    """One running METEOR 1.5, spoken to line by line; use it as a context manager.

    Args:
        timeout: seconds to wait for one answer, the start included, before Java is stopped.
        normalize: whether METEOR cuts the text again by its own rules.

    Attributes:
        owner: id of the Python process that started it; another one must not speak to it.
    """

    def __init__(self, timeout: float = 120.0, normalize: bool = True) -> None:
        require(pycocoevalcap_reason(), "METEOR")
        folder = package_folder() / "meteor"
        command = [cast(str, java.java_command()), "-Dfile.encoding=UTF-8", f"-Xmx{_MEMORY}", "-jar"]
        command += ["meteor-1.5.jar", "-", "-", "-stdio", "-l", "en"]
        command += ["-norm"] if normalize else []
        self._timeout = timeout
        self._timed_out = False
        self.owner = os.getpid()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def statistics(self, candidate: str, references: Sequence[str]) -> str:
        """Return METEOR's statistics of one candidate, as the line that :meth:`evaluate` takes."""
        parts = [_one_segment(text) for text in (*references, candidate)]
        answer = self._ask("SCORE ||| " + " ||| ".join(parts), 1)[0]
        if len(answer.split()) != _STATISTICS:
            raise self._failure(f"answered {answer!r} for the candidate {candidate!r:.80}")
        return answer

    def evaluate(self, statistics: Sequence[str]) -> tuple[list[float], float]:
        """Return the score of each line of statistics, and the score of all of them together."""
        answers = self._ask(" ||| ".join(["EVAL", *statistics]), len(statistics) + 1)
        try:
            numbers = [float(answer) for answer in answers]
        except ValueError:
            raise self._failure(f"answered {answers[-1]!r} where a number was due") from None
        return numbers[:-1], numbers[-1]

    def close(self) -> None:
        """Stop Java and release its pipes; safe to call twice."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                cast(IO[bytes], pipe).close()
            except BrokenPipeError:
                continue  # unsent text of a program that died; nobody waits for it
        self._process.wait()
        self._errors.close()

    def __enter__(self) -> MeteorProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, line: str, answers: int) -> list[str]:
        """Send a line and read ``answers`` lines; a timer ends Java if that takes too long."""
        sender, receiver = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        timer = threading.Timer(self._timeout, self._stop)
        timer.start()
        lines = []
        try:
            sender.write(line.encode() + b"\n")
            sender.flush()
            for _ in range(answers):
                answer = receiver.readline()
                if not answer.endswith(b"\n"):
                    raise self._failure("stopped")
                lines.append(answer.decode("utf-8", "replace").strip())
                if lines[-1].startswith("Error"):
                    raise self._failure(f"answered {lines[-1]!r} to {line!r:.120}")
        except BrokenPipeError:
            raise self._failure("stopped") from None
        finally:
            timer.cancel()
        return lines

    def _stop(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _failure(self, what: str) -> UnavailableError:
        self._process.kill()
        status = self._process.wait()
        self._errors.seek(0)
        said = first_lines(self._errors.read().decode("utf-8", "replace"))
        if self._timed_out:
            what = f"gave no answer within {self._timeout:g} s and was stopped"
        return UnavailableError(f"METEOR's Java program {what} (exit status {status}); Java said:\n{said}")


def _one_segment(text: str) -> str:
    """Return text that cannot be read as two segments or two lines of METEOR's protocol."""
    return " ".join(LINE_ENDS.sub(" ", text).replace("|||", " ").split())


_last_meteor: LastCorpus[tuple[np.ndarray, np.ndarray]] = LastCorpus()


class Meteor(TokenMetric):
    """METEOR 1.5 (Denkowski and Lavie, 2014) for English, as the COCO evaluation runs it; 0 to 1.

    METEOR has no Japanese stems, synonyms or paraphrases, so Japanese matches only exactly. What it
    matches are single characters, whichever tokenizer came before: METEOR's normalization, which
    the COCO evaluation asks for, cuts every kanji and kana apart. ``normalize=False`` keeps words.

    The corpus score aggregates METEOR's statistics and is not the mean of the captions' scores.
    Java is started by the first call and serves the later ones; calls from several threads at once have
    a process each, started one after the other, and so has a forked or unpickled copy.

    Args:
        tokenizer: see :func:`suisei.metrics.tokenizers.get_tokenizer`.
        timeout: seconds to wait for one answer of the Java program.
        normalize: whether METEOR cuts the tokens again by its own rules, as the COCO evaluation does.

    Raises:
        UnavailableError: Java or pycocoevalcap is missing, or Java dies, hangs or answers nonsense.
    """

    name = "meteor"

    def __init__(self, tokenizer: str = "auto", timeout: float = 120.0, normalize: bool = True) -> None:
        require(pycocoevalcap_reason(), "METEOR")
        super().__init__(tokenizer)
        self.timeout = timeout
        self.normalize = normalize
        self._keep_idle()

    def _keep_idle(self) -> None:
        self._idle: list[MeteorProcess] = []
        weakref.finalize(self, _close_all, self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_idle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._keep_idle()

    def settings(self) -> dict[str, str]:
        """Return tokenizer, METEOR's version and how it reads Japanese."""
        version, japanese = (
            ("1.5-en-norm", "exact-characters") if self.normalize else ("1.5-en", "exact-tokens")
        )
        return {**super().settings(), "meteor": version, "ja": japanese}

    def corpus_key(self, samples: Sequence[CaptionSample]) -> Hashable:
        """Return what decides the scores: the tokens, and whether METEOR cuts them again."""
        return self.normalize, super().corpus_key(samples)

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return self._evaluate(samples, progress)[0]

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return METEOR's statistics of each sample, as they are added up, float64 [N, 23]."""
        return self._evaluate(samples, progress=False)[1]

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return METEOR of each row of summed statistics."""
        lines = [" ".join(map(repr, total)) for total in np.asarray(totals, dtype=np.float64).tolist()]
        with self._process() as process:
            return np.array(process.evaluate(lines)[0])

    def _evaluate(self, samples: Sequence[CaptionSample], progress: bool) -> tuple[np.ndarray, np.ndarray]:
        return _last_meteor.get(self.corpus_key(samples), lambda: self._run(self.tokenize(samples), progress))

    def _run(self, samples: Sequence[TokenizedSample], progress: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and statistics; each distinct sample is scored once."""
        known: dict[TokenizedSample, str] = {}
        distinct = list(dict.fromkeys(samples))
        with self._process() as process, progress_bar("meteor", len(distinct), shown=progress) as advance:
            for sample in distinct:
                references = [" ".join(reference) for reference in sample.references]
                known[sample] = process.statistics(" ".join(sample.candidate), references)
                advance(1)
            lines = [known[sample] for sample in samples]
            return np.array(process.evaluate(lines)[0]), _summable(lines)

    @contextmanager
    def _process(self) -> Iterator[MeteorProcess]:
        """Give a running program that no other thread has; one that failed is not used again."""
        process = self._own_idle() or self._started()
        try:
            yield process
        except BaseException:
            process.close()
            raise
        self._idle.append(process)

    def _started(self) -> MeteorProcess:
        """Return a program that answers, or one that another thread is done with by now.

        All that start at once share the cores until the slowest is late for its first answer.
        """
        with _starting.setdefault(os.getpid(), threading.Lock()):
            if process := self._own_idle():
                return process
            process = MeteorProcess(self.timeout, normalize=self.normalize)
            try:
                process.statistics("a", ["a"])
            except BaseException:
                process.close()
                raise
            return process

    def _own_idle(self) -> MeteorProcess | None:
        while self._idle:
            try:
                process = self._idle.pop()
            except IndexError:  # another thread took it
                return None
            if process.owner == os.getpid():
                return process
            _OF_THE_PARENT.append(process)
        return None


_starting: dict[int, threading.Lock] = {}
"""Held while Java starts, which keeps a core or two busy for seconds; a fork has its own, which is free."""

_OF_THE_PARENT: list[MeteorProcess] = []
"""What a fork inherited: kept so that its pipes stay as they are."""


def _close_all(processes: list[MeteorProcess]) -> None:
    while processes:
        process = processes.pop()
        if process.owner == os.getpid():
            process.close()


def _summable(lines: Sequence[str]) -> np.ndarray:
    """Return statistics as METEOR adds them up: a candidate matched whole, in one chunk, counts none."""
    table = np.array([[float(value) for value in line.split()] for line in lines])
    whole = (table[:, 0] == table[:, 21]) & (table[:, 1] == table[:, 22]) & (table[:, 20] == 1)
    table[whole, 20] = 0
    return table
