"""CaptionDataModule: rated captions from files or benchmarks, split by group, served in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from torch.utils.data import DataLoader

from suisei.data.formats import OnError
from suisei.data.leaks import describe_shared, shared_between, shared_image
from suisei.data.load import load_data
from suisei.data.raters import raters_joined
from suisei.data.sample import CaptionSample
from suisei.data.source_names import told_apart
from suisei.data.splits import PARTS, Disjoint, Split, caption_key, group_of
from suisei.errors import DataError
from suisei.models.batch import Batch
from suisei.ranges import NAME, SEED, SHARE, Range, Rule, Several, Word, at_least, check, check_settings
from suisei.training.batching import (
    BalancedBatches,
    Batching,
    EpochBatches,
    ResumableDataLoader,
    batch_loader,
)
from suisei.training.reference_order import ReferenceOrder, rotated
from suisei.training.resumable_data import ResumableData, cut
from suisei.training.shares import RankBatches, parts, shared_out
from suisei.training.splitting import Splitting
from suisei.training.support import Support, read_support
from suisei.training.synthetic import Synthetic
from suisei.training.usable_rows import decodable_rows, rated_rows

logger = logging.getLogger(__name__)

Collate = Callable[[Sequence[int]], Batch]
RULES: dict[str, Rule] = {
    "synthetic": Range(0, 100),
    "rating_scale": Several(Range(-1e9, 1e9), 2, 2, null=True),
    "fractions": Several(SHARE, 3, 3),
    "folds": at_least(2, 1000, also=(0,)),
    "split_seed": SEED,
    "disjoint": Word(get_args(Disjoint)),
    "batch_size": at_least(1, 100_000),
    "batching": Word(get_args(Batching)),
    "references": Word(get_args(ReferenceOrder)),
    "num_workers": at_least(0, 1024),
    "on_error": Word(get_args(OnError)),
}

EVAL_BATCHES = 4
"""A validation batch is as many training batches: without gradients it takes less memory all the same."""


@dataclass(eq=False, repr=False)
class CaptionDataModule(ResumableData):
    """Rated captions, split by group into train, validation and test.

    Args:
        train: a benchmark name ("scenes", "shichimi", "flickr8k-expert", ...) or a file of rated
            captions (.jsonl, .csv, .tsv, .parquet); or a list of them, of which each is split by itself, save
            that an image file that several have is in the same part of all.
        validation: data that decides early stopping and the kept checkpoint; split off from
            ``train`` by group where none is given.
        test: data read once, at the end; split off from ``train`` by group where none is given.
        support: data that helps training without being trained for: captions of images
            ("flickr8k-train") for pre-training, rated sentence pairs ("jsts") for that and for the ridge.
            What holds a reference of a validation or test sample is left out.
        synthetic: training samples that are made of references and of degraded captions and rated by rule
            (:mod:`suisei.training.synthetic`), as a share of the rated ones; they teach a model that
            repetition, disorder and emptiness are bad where no rating says so.
        root: folder of a benchmark's official layout; with several benchmarks, {name: folder}.
        images: folder that relative image paths of a file start from.
        rating_scale: lowest and highest rating of a file that does not say so itself.
        fractions: shares of the groups in train, validation and test; with folds the second is the share of
            validation in what is not tested.
        folds: number of folds for cross-validation; 0 for a single split by ``fractions``.
        fold: which fold is the test split, from 0; null for all of them, one after the other.
        split_seed: seed of the split.
        disjoint: what training, validation and test do not share: "group" for groups, usually images;
            "captions" for candidate captions besides, where one caption is rated with several images
            (Flickr8k): a training or validation sample whose candidate is one of the test's is left out, and
            a training sample whose candidate is one of validation's. The test samples are the same either
            way. "crossed" keeps more to train on: candidates are in folds as groups are, what is of the fold
            by both is tested, and what is of it by neither is trained on; it needs ``folds``. "topics" makes
            each fold a topic of images (:func:`suisei.data.topics.topics_of`), so that the one tested was not
            trained on, and keeps candidates apart like "captions"; ``support`` is not sorted. References,
            which carry no rating, do not count.
        batch_size: samples per training batch, and per process where several train together.
        batching: how samples meet in training batches: "shuffled" for at random; "length" for samples
            whose longest captions are about as long, which saves padding; "group" for samples of the
            same images, whose references are then encoded once for all of them; "balanced" for whole groups
            of every data set, as many as make up its equal share of ``batch_size`` about, where each set
            counts by its own mean in the loss, and a smaller one starts again within an epoch.
        references: which references a training sample begins with, where a model reads two side by side
            (``model.fusion.references: concat``): "first" for those that the data names first; "rotate" for
            the i-th sample of a group to begin with its reference i mod N, as SuiSei's own program does.
            Validation and test samples always begin with the first. Other models take all in any order.
        num_workers: processes that prepare batches; useful where images are decoded per batch.
        on_error: "raise" to stop at a bad row, or one without a rating or with a damaged image that the model
            would look at; "skip" to leave it out, counted and named.
    """

    train: str | list[str] = "scenes"
    validation: str | None = None
    test: str | None = None
    support: str | list[str] | None = None
    synthetic: float = 0.0
    root: str | dict[str, str] | None = None
    images: str | None = None
    rating_scale: tuple[float, float] | None = None
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    folds: int = 0
    fold: int | None = None
    split_seed: int = 0
    disjoint: Disjoint = "group"
    batch_size: int = 32
    batching: Batching = "shuffled"
    references: ReferenceOrder = "first"
    num_workers: int = 0
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        super().__init__()
        check_settings("data", self, RULES)
        self.sources = [self.train] if isinstance(self.train, str) else list(self.train)
        self._splitting()
        check("data.train", self.sources, Several(NAME, 1, 100))
        self.support_sources = [self.support] if isinstance(self.support, str) else list(self.support or [])
        self.support_data = Support()
        self.samples: list[CaptionSample] = []
        self.split = Split((), (), ())
        self.shared: dict[str, dict[str, int]] = {}
        self._collate: Collate | None = None
        self._pictured, self._told = False, True
        self._seed = 0
        self._lengths: np.ndarray | None = None
        self._pairs = 0
        self._originals: dict[int, int] = {}
        self._made = range(0)
        self._source_of: dict[str, int] = {}
        self._set_of: list[int] = []

    def _splitting(self) -> Splitting:
        return Splitting(
            tuple(self.sources),
            self.fractions,
            self.folds,
            self.fold,
            self.split_seed,
            self.disjoint,
            self.validation,
            self.test,
        )

    def load(self, *, pictured: bool = False, told: bool = True) -> None:
        """Read all data and split it. Test ratings are read here and used once, at the end.

        Args:
            pictured: whether the model looks at images: with ``on_error: skip`` rows whose image cannot be
                decoded are left out then.
            told: whether to say how far that is.

        Raises:
            DataError: bad data, or a split without samples.
        """
        self.skipped, self._pictured, self._told = [], pictured, told
        sources = [self._read(source) for source in self.sources]
        names = [group_of(sample) for samples in sources for sample in samples]
        if len(sources) > 1:
            sources = told_apart(self.sources, sources)
        self._set_of = [number for number, samples in enumerate(sources) for _ in samples]
        for number, samples in enumerate(sources):
            for sample in samples:
                self._source_of.setdefault(group_of(sample), number)
        self.samples = [sample for samples in sources for sample in samples]
        splitting = self._splitting()
        parts, method = splitting.parts(sources)
        for part, given in zip(parts[1:], (self.validation, self.test), strict=True):
            if given:
                start = len(self.samples)
                self.samples += self._read(given)
                part.extend(range(start, len(self.samples)))
                names += [group_of(sample) for sample in self.samples[start:]]
        self.split = splitting.checked(self.samples, names, parts, method)
        if self.references == "rotate":
            self.samples = rotated(self.samples, self.split.train)
        self._refuse_absent()
        candidates = self.disjoint != "group"
        self.support_data = self._read_support().without(self._held_out(), candidates=candidates)
        self._warn_of_shared_contents()
        self.tell_of_skipped()

    def _warn_of_shared_contents(self) -> None:
        parts = {part: self.part(part) for part in PARTS}
        parts["support"] = [CaptionSample(said[0], said, image) for image, said in self.support_data.images]
        self.shared = shared_between(parts)
        if self.shared:
            copy = shared_image(parts, self.shared)
            logger.warning("%s%s", describe_shared(self.shared), f" For instance, {copy}." if copy else "")

    def _held_out(self) -> list[CaptionSample]:
        return [*self.part("validation"), *self.part("test")]

    def _refuse_absent(self) -> None:
        """Refuse a data set of a balanced batch without a training sample."""
        numbers = self.set_numbers()
        there = set() if numbers is None else set(numbers[list(self.split.train)].tolist())
        absent = [source for number, source in enumerate(self.sources) if number not in there]
        if numbers is not None and absent:
            raise DataError(
                f"{absent[0]}: no sample of it is left to train on, and data.batching: balanced takes some "
                "of every data set; leave it out of data.train, or change data.disjoint or data.batching"
            )

    def _read_support(self) -> Support:
        support = Support()
        images = Path(self.images) if self.images else None
        for source in self.support_sources:
            support.add(
                read_support(
                    source,
                    root=self._root(source),
                    images=images,
                    rating_scale=self.rating_scale,
                    on_error=self.on_error,
                    skipped=self.skipped,
                    pictured=self._pictured,
                    told=self._told,
                )
            )
        return support

    def _root(self, source: str) -> Path | None:
        root = self.root.get(source) if isinstance(self.root, dict) else self.root
        return Path(root) if root else None

    def add_training(self, made: Synthetic) -> int:
        """Add samples to the training split and return how many; their groups must be of it already.

        Where captions are disjoint, samples with a held-out candidate are left out.
        """
        held_out: set[str] = set()
        if self.disjoint != "group":
            others = self.part("test") if self.disjoint == "crossed" else self._held_out()
            held_out = {caption_key(sample.candidate) for sample in others}
        kept = [row for row, s in enumerate(made.samples) if caption_key(s.candidate) not in held_out]
        first, rated = len(self.samples), self.split.train
        position = {len(rated) + row: first + place for place, row in enumerate(kept)}
        position.update(enumerate(rated))
        self._originals = {
            position[len(rated) + row]: position[made.originals[row]]
            for row in kept
            if made.originals[row] in position
        }
        self.samples = [*self.samples, *(made.samples[row] for row in kept)]
        self._made = range(first, len(self.samples))
        self.split = replace(self.split, train=(*rated, *self._made))
        return len(kept)

    def rated_training(self) -> list[int]:
        """Return the positions of the training samples that people rated, without those added."""
        return [position for position in self.split.train if position not in self._made]

    def people_rated(self) -> list[CaptionSample]:
        """Return all samples that people rated, whatever part they are in, or in none."""
        return [sample for position, sample in enumerate(self.samples) if position not in self._made]

    def originals(self) -> np.ndarray | None:
        """Return which sample each degraded one was made of, int64 [N], -1 for none; None without any."""
        found = [self._originals.get(position, -1) for position in range(len(self.samples))]
        return np.array(found, dtype=np.int64) if self._originals else None

    def set_numbers(self) -> np.ndarray | None:
        """Return which data set each sample is of, int64 [N]; None where that makes no difference."""
        if self.batching != "balanced" or len(self.sources) < 2:
            return None
        others = self.samples[len(self._set_of) :]  # of given files, and degraded ones
        return np.array([*self._set_of, *(self._source_of.get(group_of(sample), 0) for sample in others)])

    def part(self, name: str) -> list[CaptionSample]:
        """Return the samples of "train", "validation" or "test"."""
        return [self.samples[position] for position in getattr(self.split, name)]

    def tested(self, sources: Collection[str]) -> list[CaptionSample]:
        """Return the test samples of some of the sources, those of ``data.test`` included."""
        named = {number for number, source in enumerate(self.sources) if source in sources}
        own = len(self._set_of)
        tested = [place for place in self.split.test if place >= own or self._set_of[place] in named]
        return [self.samples[place] for place in tested]

    def attach(self, collate: Collate, seed: int, lengths: np.ndarray | None = None, pairs: int = 0) -> None:
        """Set what makes batches; called once the model is built.

        Args:
            collate: makes the batch of the samples at some positions.
            seed: decides the order of the training samples.
            lengths: tokens of the longest caption of every sample, for ``batching``; None where nothing
                is padded.
            pairs: number of rated pairs of captions, whose positions come after those of the samples.
        """
        self._collate, self._seed, self._lengths, self._pairs = collate, seed, lengths, pairs

    def train_dataloader(self) -> ResumableDataLoader:
        """Return shuffled training batches that can be resumed in the middle of an epoch.

        Of each, several processes get a share; a batch then has ``batch_size`` samples per process.
        """
        batches: Any = self._balanced() if self.batching == "balanced" else self._epochs()
        rank, world = self.processes
        if world > 1:
            together = self.batching in ("group", "balanced")
            unit = (lambda position: group_of(self.samples[position])) if together else None
            batches = RankBatches(batches, rank, world, len(self.samples), unit)
        return self.resumable(batches, self._collating(), self.num_workers)

    def _collating(self) -> Collate | None:
        return self._collate and shared_out(self._collate)

    def _epochs(self) -> EpochBatches:
        positions = list(self.split.train)
        grouped = self.batching == "group"
        sort = self.batching != "shuffled" and self._lengths is not None
        return EpochBatches(
            positions,
            self.batch_size * self.processes[1],
            self._seed,
            lengths=self._lengths[positions] if sort and self._lengths is not None else None,
            groups=[group_of(self.samples[position]) for position in positions] if grouped else None,
        )

    def _balanced(self) -> BalancedBatches:
        numbers = self.set_numbers()
        sets: list[dict[str, list[int]]] = [{} for _ in self.sources]
        for position in self.split.train:
            own = sets[0 if numbers is None else int(numbers[position])]
            own.setdefault(group_of(self.samples[position]), []).append(position)
        pairs = range(len(self.samples), len(self.samples) + self._pairs)
        size = self.batch_size * self.processes[1]
        return BalancedBatches([list(own.values()) for own in sets], size, self._seed, pairs)

    def val_dataloader(self) -> DataLoader:
        """Return validation batches in order, or of each the part of this process."""
        rank, world = self.processes
        batches = cut(self.split.validation, EVAL_BATCHES * self.batch_size * world)
        return batch_loader(parts(batches, rank, world), self._collating(), self.num_workers)

    def _read(self, source: str) -> list[CaptionSample]:
        before = len(self.skipped)
        samples = load_data(
            source,
            root=self._root(source),
            images=Path(self.images) if self.images else None,
            rating_scale=self.rating_scale,
            on_error=self.on_error,
            skipped=self.skipped,
        )
        bad = {row.number for row in self.skipped[before:]}
        rows, unrated = rated_rows(source, samples, bad, self.on_error)
        self.skipped += unrated
        if self._pictured and self.on_error == "skip":
            rows, damaged = decodable_rows(source, rows, told=self._told)
            self.skipped += damaged
        self.skipped[before:] = sorted(self.skipped[before:], key=lambda row: row.number)
        joined = raters_joined(source, [sample for _, sample in rows])
        if joined.note:
            logger.warning("%s", joined.note)
        return joined.samples
