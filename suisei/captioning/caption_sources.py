"""Images with the captions that people wrote for them, of any data that can be read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suisei.data.caption_texts import is_json
from suisei.data.coco import read_references
from suisei.data.compressed import plain_suffix
from suisei.data.decodable import check_decodable, problems_of, sound_items
from suisei.data.file_rows import Row
from suisei.data.formats import UNRATED, NamedColumns, OnError
from suisei.data.karpathy_parts import file_of, read_parts
from suisei.data.load import load_data
from suisei.data.pairs import is_pairs, load_pairs
from suisei.data.paths import Allowed, Root, full_path
from suisei.data.sample import CaptionSample, detect_language
from suisei.errors import DataError
from suisei.progress import progress_bar


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """One image with its captions.

    Attributes:
        image: path of the file.
        captions: at least one.
        languages: of each caption.
        id: its name: the id of its row, or of its file; its path where other images have it too.
    """

    image: Path
    captions: tuple[str, ...]
    languages: tuple[str, ...]
    id: str

    def in_language(self, language: str) -> tuple[str, ...]:
        """Return its captions in a language."""
        own = zip(self.captions, self.languages, strict=True)
        return tuple(caption for caption, spoken in own if spoken == language)


def load_captioned(
    source: str,
    *,
    root: Path | str | None = None,
    images: Path | str | None = None,
    language: str | None = None,
    allowed: Allowed | None = None,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    told: bool = True,
) -> list[CaptionedImage]:
    """Read images and captions.

    Args:
        source: "flickr8k-train", "-dev" or "-test"; JSON lines with ``image`` and ``captions``; a Karpathy
            split with the parts wanted, "dataset_coco.json:train+restval"; COCO annotations (.json); or rated
            data of any kind (a benchmark's name or a file), whose references are taken, and the candidate
            where a row has none.
        root: the folder of Flickr8k or of a benchmark.
        images: where relative image paths start, where it is not the file's own folder.
        language: keep captions of this language alone; images without any are left out.
        allowed: what a file may name beside images in ``images`` or its own folder.
        on_error: "raise" refuses bad rows and files that are not there, "skip" leaves them out, and images
            that cannot be decoded.
        skipped: a list that receives what is left out.
        told: whether to say how far the decoding is.

    Raises:
        ConfigError: an unknown name or part.
        DataError: unusable data, no image, or image files that are not there.
    """
    skipped = [] if skipped is None else skipped
    found = _read(source, root, images, allowed, on_error, skipped)
    if language is not None:
        found = [_only(image, language) for image in found]
        found = [image for image in found if image.captions]
    if not found:
        spoken = f" in {language}" if language else ""
        raise DataError(f"{source}: no image with a caption{spoken}")
    absent = [None if image.image.is_file() else f"there is no file {image.image}" for image in found]
    lacking = [image.image for image, problem in zip(found, absent, strict=True) if problem]
    if lacking and (on_error == "raise" or all(absent)):
        raise DataError(
            f"{source}: {len(lacking)} of {len(found)} image files are not there, such as {lacking[0]}; say "
            "where images are (data.images in training, --images with suisei caption)"
        )
    found = sound_items(source, found, absent, skipped)
    if on_error == "skip":
        problems = problems_of(source, found, lambda image: [image.image], told=told)
        found = sound_items(source, found, problems, skipped)
    return _told_apart(found)


def _told_apart(images: list[CaptionedImage]) -> list[CaptionedImage]:
    """Return images by ids of their own: folders of one data set may hold files of the same name."""
    while shared := _shared(images):  # again where a path is the id of another image
        images = [replace(image, id=str(image.image)) if image.id in shared else image for image in images]
    return images


def _shared(images: Sequence[CaptionedImage]) -> set[str]:
    """Return the ids that several images have, but for paths."""
    counts = Counter(image.id for image in images)
    return {image.id for image in images if counts[image.id] > 1 and image.id != str(image.image)}


def check_test_images(images: Sequence[CaptionedImage], source: str) -> None:
    """Refuse images that cannot be decoded, which a report on them would find once a model is trained.

    Args:
        images: the images.
        source: where they are from.

    Raises:
        DataError: some cannot; they are counted and the first is named.
    """
    files = [image.image for image in images]
    with progress_bar("checking test images", len(files), shown=bool(files)) as advance:
        check_decodable(files, f"{source}: ", "test images", advance)


def check_spoken(
    training: Sequence[CaptionedImage], validation: Sequence[CaptionedImage], source: str
) -> None:
    """Refuse validation captions in a language that no training caption is in.

    Args:
        training: the training images.
        validation: the validation images.
        source: where these are from.

    Raises:
        DataError: some are.
    """
    known = {language for image in training for language in image.languages}
    strange = [
        (image, caption, language)
        for image in validation
        for caption, language in zip(image.captions, image.languages, strict=True)
        if language not in known
    ]
    if strange:
        image, caption, language = strange[0]
        raise DataError(
            f"{source}: {len(strange)} validation captions are in a language that no training caption is in "
            f"({language}), such as {caption[:60]!r} of {image.id}; train on such captions too, or keep one "
            "language (data.language)"
        )


def _read(
    source: str,
    root: Path | str | None,
    images: Path | str | None,
    allowed: Allowed | None,
    on_error: OnError,
    skipped: list[Row],
) -> list[CaptionedImage]:
    file = file_of(source)
    if is_json(file):
        split = read_parts(source, images=images, allowed=allowed)
        if split is not None:
            return [_made(*image) for image in split]
        own = Path(file).parent
        return list(_of_annotations(file, Root(own if images is None else images, own, allowed=allowed)))
    if is_pairs(source):
        start = images if images is not None and plain_suffix(source) == ".jsonl" else root
        pairs = load_pairs(source, root=start, allowed=allowed, on_error=on_error, skipped=skipped)
        return [_made(pair.image, pair.captions, pair.image.name) for pair in pairs]
    samples = load_data(
        source,
        root=root,
        images=images,
        columns=_unrated(source),
        allowed=allowed,
        on_error=on_error,
        skipped=skipped,
    )
    return list(_of_samples(samples))


def _of_annotations(file: str, folder: Root) -> Iterable[CaptionedImage]:
    found = read_references([file])
    if not found.file_names:
        raise DataError(f"{file}: says nothing of image files; it takes COCO annotations with their images")
    for name, image in found.file_names.items():
        captions = found.captions.get(image)
        if captions:
            yield _made(folder.found(name, place=file), captions, image)


def _of_samples(samples: Iterable[CaptionSample]) -> Iterable[CaptionedImage]:
    collected: dict[str, tuple[Path, dict[str, str]]] = {}
    for sample in samples:
        if not isinstance(sample.image, str | Path):
            continue
        file = full_path(sample.image)
        own = collected.setdefault(file, (Path(sample.image), {}))[1]
        for caption in sample.references or (sample.candidate,):
            own.setdefault(caption, sample.language or detect_language(caption))
    for image, captions in collected.values():
        yield CaptionedImage(image, tuple(captions), tuple(captions.values()), image.name)


def _unrated(source: str) -> NamedColumns | None:
    from suisei.data.benchmarks import BENCHMARKS

    return None if source in BENCHMARKS else UNRATED


def _made(image: Path, captions: Iterable[str], name: str) -> CaptionedImage:
    texts = tuple(dict.fromkeys(captions))
    return CaptionedImage(image, texts, tuple(map(detect_language, texts)), name)


def _only(image: CaptionedImage, language: str) -> CaptionedImage:
    own = image.in_language(language)
    return CaptionedImage(image.image, own, (language,) * len(own), image.id)
