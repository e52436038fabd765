"""Captions of COCO's images, which several benchmarks take their references from."""

from __future__ import annotations

import re
from pathlib import Path

from suisei.data.coco import read_references
from suisei.errors import DataError

KARPATHY = "reference_captions.json"
"""The captions of Karpathy's test split as ``{image id: [captions]}``."""

_NUMBER = re.compile(r"(\d{1,12})\.\w+$")


class CocoCaptions:
    """Captions by image number.

    Args:
        captions: {image number: captions}.
    """

    def __init__(self, captions: dict[int, tuple[str, ...]]) -> None:
        self._captions = captions

    @classmethod
    def find(cls, root: Path, *names: str) -> CocoCaptions:
        """Read the first of the files that is in the folder; without any, no image has captions.

        Args:
            root: the folder.
            names: files in COCO's own layout (``annotations`` with ``image_id`` and ``caption``), or of
                captions by image id.

        Raises:
            DataError: the file is laid out otherwise.
        """
        path = next((root / name for name in (*names, KARPATHY) if (root / name).is_file()), None)
        if path is None:
            return cls({})
        found = read_references([path])
        if found.by_line:
            raise DataError(f"{path}: its rows name no images; give COCO's own file of captions")
        captions = found.captions
        other = next((image for image in captions if not image.isdecimal()), None)
        if other is not None:
            raise DataError(f"{path}: image id {other[:40]!r} is no number; give COCO's own file of captions")
        return cls({int(image): tuple(own) for image, own in captions.items()})

    def __bool__(self) -> bool:
        return bool(self._captions)

    def of(self, image: str, without: str | None = None) -> tuple[str, ...]:
        """Return an image's captions, but for one.

        Args:
            image: name of the image file, which ends in COCO's number.
            without: a caption that is left out wherever it says the same but for case, blanks and the
                full stop at the end.
        """
        found = _NUMBER.search(image)
        captions = self._captions.get(int(found.group(1)), ()) if found else ()
        return captions if without is None else without_caption(captions, without)


def without_caption(captions: tuple[str, ...], caption: str) -> tuple[str, ...]:
    """Return the captions other than one, whatever its case, blanks and final full stop.

    >>> without_caption(("A dog runs. ", "Two dogs"), "a dog runs")
    ('Two dogs',)
    """
    return tuple(text for text in captions if _plain(text) != _plain(caption))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .")
