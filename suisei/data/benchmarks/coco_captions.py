"""Captions of COCO's images, which several benchmarks take their references from."""

from __future__ import annotations

import re
from pathlib import Path

from suisei.data.benchmarks.jsonfile import as_object, read_object, text_of, texts_of
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
        return cls({} if path is None else _read(path))

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


def _read(path: Path) -> dict[int, tuple[str, ...]]:
    content = read_object(path)
    found: dict[int, tuple[str, ...]] = {}
    try:
        if "annotations" not in content:
            return {int(name): texts_of(content, name) for name in content}
        for record in map(as_object, content["annotations"]):
            image = int(record["image_id"])
            found[image] = (*found.get(image, ()), text_of(record, "caption"))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{path}: expected 'annotations' with image_id and caption, or captions by image id ({problem})"
        ) from None
    return found
