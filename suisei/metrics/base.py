"""Metric: the one interface of everything that scores a caption, SuiSei included."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from suisei.cli import counted
from suisei.data.given_samples import as_samples
from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, language_of
from suisei.errors import ConfigError, DataError
from suisei.metrics.refused import score_around
from suisei.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image

    from suisei.explain.explanation import Explanation


@runtime_checkable
class StreamFit(Protocol):
    """A metric whose corpus statistics are counted sample by sample, such as CIDEr's idf."""

    def fit_stream(self, samples: Iterable[CaptionSample]) -> None:
        """Fit corpus statistics on samples that need not fit into memory."""


@runtime_checkable
class LearnsFromCaptions(Protocol):
    """A metric whose idf weights come from a corpus of captions, and can be saved."""

    def fit_captions(self, captions: Iterable[str], *, corpus: str) -> None:
        """Learn from captions of the corpus with that name."""

    def save_idf(self, path: Path) -> None:
        """Write what was learned."""


@runtime_checkable
class SummableCorpus(Protocol):
    """A metric whose corpus score comes from counts that add up, such as BLEU."""

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the counts of each sample, [N, K]."""

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return the corpus score of each row of summed counts: [B, K] to float64 [B]."""


class Metric(ABC):
    """Scores captions, one sample at a time as far as anyone can tell from outside.

    A subclass sets ``name`` and ``needs`` and writes ``_score``; this class owns validation, order
    and missing inputs. A score depends on its own sample alone, never on its batch or neighbours.
    A metric with corpus statistics (idf) gets them from ``fit`` and refuses to score before.

    Once fitted, a metric may be used by several threads at once, and pickled for other processes. One that
    computes with torch takes one thread in a process forked from one where such a metric was in use.

    Attributes:
        name: the registry name, lower case with dashes, such as "bleu-4".
        needs: what a sample must have to be scored: any of "references" and "image".
        higher_is_better: False for distances.
        largest: of a distance, the largest there is, which a caption without a word gets; None for no limit.
        language: the only one whose captions it reads, None for any.
        package: (name, version) of another package that brings it, for the signature; None for one of suisei.
    """

    name: str
    needs: frozenset[str] = frozenset()
    higher_is_better: ClassVar[bool] = True
    largest: ClassVar[float | None] = None
    language: ClassVar[str | None] = None
    package: tuple[str, str] | None = None

    @property
    def backbone(self) -> str | None:
        """The dual encoder whose published figures compare with those of this one; None without one."""
        return None

    def score(
        self,
        samples: Iterable[CaptionSample] | Iterable[str] | Any,
        references: Iterable[Iterable[str] | None] | Any = None,
        images: Iterable[str | Path | Image | None] | Any = None,
        *,
        batch_size: int = 64,
        progress: bool = False,
    ) -> np.ndarray:
        """Score samples, or candidates with parallel lists of references and images.

        Args:
            samples: N samples, or N candidate captions: a list, tuple, generator, NumPy array or Series;
                or a pandas or Polars DataFrame whose columns are named as the fields of a file are. Rows
                are taken by position.
            references: N lists of references; only with candidates given as text.
            images: N images as CaptionSample takes them, None where missing; only with candidates given
                as text.
            batch_size: how many items are processed at once; never changes a score.
            progress: whether to show a progress bar on standard error.

        Returns:
            float64 of shape [N], in input order. NaN exactly where a sample lacks what the metric
            needs; :meth:`missing` names those samples and the reason.

        Raises:
            DataError: invalid input.
            ConfigError: the metric needs ``fit`` first, or ``batch_size`` is not positive.
        """
        batch_size = _checked_size(batch_size)
        prepared = as_samples(samples, references, images)
        missing = self.missing(prepared)
        usable = [i for i in range(len(prepared)) if i not in missing]
        scores = np.full(len(prepared), math.nan)
        if usable or (self.needs_fit and not prepared):  # what is not fitted says so, of no sample too
            with _own_formats():
                values = self._score([prepared[i] for i in usable], batch_size=batch_size, progress=progress)
            if np.iscomplexobj(values):
                raise RuntimeError(f"{self.name} returned complex numbers: this is a defect")
            values = np.asarray(values, dtype=np.float64)
            if values.shape != (len(usable),):
                raise RuntimeError(
                    f"{self.name} returned shape {values.shape} for {len(usable)} samples: this is a defect"
                )
            scores[usable] = values
        return scores

    def score_each(
        self, samples: Sequence[CaptionSample], *, batch_size: int = 64, progress: bool = False
    ) -> tuple[np.ndarray, dict[int, DataError]]:
        """Score samples, and leave out those that cannot be scored, such as those of a broken image.

        Args:
            samples: N samples.
            batch_size: how many items are processed at once; never changes a score.
            progress: whether to show a progress bar on standard error.

        Returns:
            float64 [N] in input order, NaN where a sample lacks what the metric needs or was refused,
            and {position: why it was refused}.

        Raises:
            ConfigError: the metric needs ``fit`` first, or ``batch_size`` is not positive.
        """
        batch_size = _checked_size(batch_size)
        prepared = as_samples(samples)
        outcomes = score_around(self, prepared, batch_size=batch_size, progress=progress)
        refused = {i: outcome for i, outcome in enumerate(outcomes) if isinstance(outcome, DataError)}
        scores = [math.nan if isinstance(outcome, DataError) else outcome for outcome in outcomes]
        return np.array(scores, dtype=np.float64), refused

    def explain(
        self,
        sample: CaptionSample | str,
        references: Iterable[str] | None = None,
        image: str | Path | Image | Any = None,
        *,
        batch_size: int = 64,
    ) -> Explanation:
        """Say why a caption has its score: what it would be without image, references, each word, ...

        All of these are scored in one batch. ``explanation.as_dict()`` is for JSON,
        :func:`suisei.explain.chart.plot_explanation` draws it.

        Args:
            sample: the sample, or a candidate caption.
            references: only with a candidate given as text.
            image: likewise, as CaptionSample takes it.
            batch_size: how many samples are scored at once; never changes a score.

        Raises:
            DataError: invalid input, or no score for the sample.
            ConfigError: the metric needs ``fit`` first, or ``batch_size`` is not positive.
        """
        own = None if references is None else [references]
        samples = as_samples([sample], own, None if image is None else [image])
        *_, explanation = self.explain_in_steps(samples[0], batch_size=batch_size, step=None)
        assert explanation is not None  # the last
        return explanation

    def explain_in_steps(
        self, sample: CaptionSample, *, batch_size: int = 64, step: int | None = 64
    ) -> Iterator[Explanation | None]:
        """Explain as :meth:`explain` does, in steps: who asks for no more ends it there.

        Args:
            sample: the sample.
            batch_size: how many samples are scored at once; never changes a score.
            step: samples of a step, at least 1, whose image is encoded anew; None for all of them.

        Yields:
            None before each step, and at last the explanation.

        Raises:
            DataError: no score for the sample.
            ConfigError: as there, or a step of less than 1.
        """
        from suisei.explain.leave_out import explain_in_steps
        from suisei.metrics.tokenizers import caption_words

        batch_size = _checked_size(batch_size)
        step = None if step is None else _checked_size(step, "step")
        steps = explain_in_steps(self, sample, caption_words, batch_size=batch_size, step=step)
        explanation = None
        while explanation is None:
            with _own_formats():  # not around the yield: who asks for steps computes in formats of their own
                explanation = next(steps)
            yield explanation

    @abstractmethod
    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        """Score samples that all have what ``needs`` asks for; float64 [len(samples)], in order."""

    def missing(self, samples: Sequence[CaptionSample]) -> dict[int, str]:
        """Return {position: reason} of the samples that lack what the metric needs, or it cannot read."""
        reasons: dict[int, str] = {}
        for position, sample in enumerate(samples):
            lacks = []
            if "references" in self.needs and not sample.references:
                lacks.append("references")
            if "image" in self.needs and sample.image is None:
                lacks.append("image")
            if lacks:
                reasons[position] = f"no {' and no '.join(lacks)}"
            elif self.language is not None and language_of(sample) != self.language:
                reasons[position] = f"{self.name} reads {LANGUAGE_NAMES[self.language]} only"
        return reasons

    @property
    def reads(self) -> frozenset[str]:
        """What may decide the score beside the candidate: what the metric needs, or anything if nothing.

        A metric that reads less than that, or more where there is more, says so.
        """
        return self.needs or frozenset({"references", "image"})

    def opens_image(self, sample: CaptionSample) -> bool:
        """Return whether the image of a sample that has one is opened for its score."""
        return "image" in self.reads

    def fit(self, samples: Iterable[CaptionSample] | Any) -> None:  # noqa: B027 - optional hook
        """Fit corpus statistics such as idf, on references only. Does nothing by default.

        Args:
            samples: samples, or a DataFrame, as :meth:`score` takes them.
        """

    @property
    def needs_fit(self) -> bool:
        """Whether ``fit`` must be called before ``score``."""
        return False

    def state(self) -> dict[str, Any]:
        """Return what ``fit`` learned, as values that JSON can hold. Empty by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 - optional hook
        """Restore what :meth:`state` returned."""

    def corpus_score(
        self, samples: Iterable[CaptionSample] | Any, scores: Sequence[float] | np.ndarray
    ) -> float:
        """Return the system-level score of a whole corpus, given its per-sample ``scores``.

        The mean of the defined scores, which that of a :class:`SummableCorpus` is not: there the counts of
        the samples that have a score are added up.

        Args:
            samples: N samples, or a DataFrame, as :meth:`score` takes them.
            scores: N numbers, as :meth:`score` gave them; NaN where there is none.

        Raises:
            DataError: no sample has a score, or one has that lacks what the metric needs, or there is not a
                number for each sample.
        """
        prepared = as_samples(samples)
        values = _one_per_sample(scores, len(prepared))
        there = ~np.isnan(values)
        if not there.any():
            raise DataError(f"{self.name} has no score for any of {counted(len(values), 'sample')}")
        if isinstance(self, SummableCorpus):
            scored = [sample for sample, has in zip(prepared, there, strict=True) if has]
            for number, reason in self.missing(prepared).items():
                if there[number]:
                    raise DataError(f"sample {number} has a score and {reason}; give the scored samples")
            counts = self.sample_statistics(scored)
            return float(self.corpus_from_statistics(counts.sum(axis=0, keepdims=True))[0])
        return float(values[there].mean())

    def settings(self) -> dict[str, str]:
        """Return what else decides the score (tokenizer, encoder, prompt, ...), for the signature."""
        return {}

    @property
    def signature(self) -> str:
        """One line that a paper can quote, such as ``bleu-4|tok:ptb-regex|suisei:0.1.0``.

        One of another package names its version too: ``mine|my-metrics:1.2|suisei:0.1.0``.
        """
        versions = [*([self.package] if self.package else []), ("suisei", __version__)]
        fields = {**self.settings(), **dict(versions)}
        return "|".join([self.name, *(f"{key}:{value}" for key, value in fields.items())])


@contextmanager
def _own_formats() -> Iterator[None]:
    """Compute as signatures say; where torch is not there yet, note afterwards if it came and computed."""
    if "torch" in sys.modules:
        from suisei.encoders.precision import own_formats

        with own_formats():
            yield
        return
    try:
        yield
    finally:
        if "torch" in sys.modules:
            from suisei.encoders.threads import compute_alone_if_forked

            compute_alone_if_forked()


def _checked_size(size: int, name: str = "batch_size") -> int:
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {size!r}")
    return int(size)


def _one_per_sample(scores: Sequence[float] | np.ndarray, count: int) -> np.ndarray:
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or values.shape != (count,):
        found = "no numbers" if values is None else f"an array of shape {values.shape}"
        raise DataError(f"scores are {found} beside {count} samples; give what score() returned for them")
    return values


def averages(metric: Metric) -> bool:
    """Return whether a metric's corpus score is the mean of its scores."""
    return type(metric).corpus_score is Metric.corpus_score and not isinstance(metric, SummableCorpus)


def given_as(option: str) -> str:
    """Return how an option of a metric is given on command lines, to say so in a message.

    >>> given_as("pac-s++.w=2.5")
    "--metric-option pac-s++.w=2.5 (of a reward: --model.reward_options '[pac-s++.w=2.5]')"
    """
    return f"--metric-option {option} (of a reward: --model.reward_options '[{option}]')"
