"""Captions beside the ratings: what text encoders are pre-trained on, and pairs of rated similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.formats import OnError, Row
from suisei.data.load import load_data
from suisei.data.pairs import decodable_pairs, is_pairs, load_pairs
from suisei.data.paths import full_path
from suisei.data.sample import CaptionSample
from suisei.data.splits import caption_key, group_of

SAME_MEANING = 0.6
"""From this rating on, in [0, 1], a candidate says the same as its references."""


@dataclass
class Support:
    """Data that helps training without being what is trained for.

    Attributes:
        groups: captions of one image, or captions that say the same, in each.
        rated: rated samples with references, such as sentence pairs with their similarity.
        images: images with their captions, which are in ``groups`` too.
    """

    groups: list[tuple[str, ...]] = field(default_factory=list)
    rated: list[CaptionSample] = field(default_factory=list)
    images: list[tuple[Path, tuple[str, ...]]] = field(default_factory=list)

    def add(self, other: Support) -> None:
        """Take in more."""
        self.groups += other.groups
        self.rated += other.rated
        self.images += other.images

    def without(self, held_out: Sequence[CaptionSample], *, candidates: bool = False) -> Support:
        """Leave out everything that holds a reference of a sample which is kept for testing.

        Captions are compared by :func:`suisei.data.splits.caption_key`: case and punctuation make no other.

        Args:
            held_out: samples for validation and test.
            candidates: whether what holds a candidate of theirs is left out too.
        """
        taken = {caption_key(reference) for sample in held_out for reference in sample.references}
        if candidates:
            taken.update(caption_key(sample.candidate) for sample in held_out)

        def free(captions: Sequence[str]) -> bool:
            return taken.isdisjoint(map(caption_key, captions))

        return Support(
            [group for group in self.groups if free(group)],
            [sample for sample in self.rated if free((sample.candidate, *sample.references))],
            [(image, captions) for image, captions in self.images if free(captions)],
        )

    def captions(self) -> list[str]:
        """Return all captions, repeats included."""
        rated = [caption for s in self.rated for caption in (s.candidate, *s.references)]
        return [caption for group in self.groups for caption in group] + rated


@dataclass(frozen=True)
class CaptionCorpus:
    """What a text encoder is pre-trained on.

    Attributes:
        groups: different captions of one image in each.
        rated: (caption, caption, similarity in [0, 1]).
        images: images with their captions.
    """

    groups: list[tuple[str, ...]]
    rated: list[tuple[str, str, float]]
    images: list[tuple[Path, tuple[str, ...]]]

    @classmethod
    def of(cls, training: Sequence[CaptionSample], support: Support) -> CaptionCorpus:
        """Collect the references of every training image, and the support.

        Candidates of training samples are not in it: whether they fit their image is what the ratings say.
        """
        images: dict[str, dict[str, None]] = {}
        for sample in training:
            images.setdefault(group_of(sample), {}).update(dict.fromkeys(sample.references))
        groups = dict.fromkeys(tuple(captions) for captions in images.values() if captions)
        groups.update(dict.fromkeys(tuple(dict.fromkeys(group)) for group in support.groups))
        rated = [
            (sample.candidate, reference, sample.rating.mean)
            for sample in support.rated
            if sample.rating is not None
            for reference in sample.references
        ]
        pictured: dict[str, tuple[Path, dict[str, None]]] = {}
        for sample in training:  # rows of an image may have others each, as of another language
            if isinstance(sample.image, str | Path) and sample.references:
                file = full_path(sample.image)
                said = pictured.setdefault(file, (Path(sample.image), {}))[1]
                said.update(dict.fromkeys(sample.references))
        own = [(image, tuple(captions)) for image, captions in pictured.values()]
        return cls(list(groups), rated, [*own, *support.images])


def read_support(
    name_or_file: str,
    *,
    root: Path | None = None,
    images: Path | None = None,
    rating_scale: tuple[float, float] | None = None,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    pictured: bool = False,
    told: bool = True,
) -> Support:
    """Read captions of images, or rated samples.

    Args:
        name_or_file: images with captions ("flickr8k-train", or JSON lines with ``captions``), or what
            :func:`suisei.data.load.load_data` reads ("jsts", a file of samples, ...): samples with a
            rating are taken as rated, and the good ones as captions that say the same.
        root: the folder of a named data set.
        images: where relative image paths of a file start.
        rating_scale: (low, high) of a file's samples that state none.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
        skipped: a list that receives the rows left out.
        pictured: whether images are looked at: "skip" leaves those out that cannot be decoded, too.
        told: whether to say how far that is.

    Raises:
        ConfigError: an unknown name.
        DataError: unusable data.
    """
    if is_pairs(name_or_file):
        skipped = [] if skipped is None else skipped
        pairs = load_pairs(name_or_file, root=root or images, on_error=on_error, skipped=skipped)
        if pictured and on_error == "skip":
            pairs = decodable_pairs(name_or_file, pairs, skipped, told=told)
        return Support(
            [pair.captions for pair in pairs], images=[(pair.image, pair.captions) for pair in pairs]
        )
    support = Support()
    samples = load_data(
        name_or_file,
        root=root,
        images=images,
        rating_scale=None if name_or_file in BENCHMARKS else rating_scale,
        on_error=on_error,
        skipped=skipped,
    )
    for sample in samples:
        good = sample.rating is not None and sample.rating.mean >= SAME_MEANING
        captions = (*sample.references, *([sample.candidate] if good else []))
        if captions:
            support.groups.append(captions)
        if sample.rating is not None and sample.references:
            support.rated.append(sample)
    return support
