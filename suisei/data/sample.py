"""CaptionSample: one candidate caption with all that is known about it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.data.caption_cells import refuse_lists
from suisei.data.given_columns import listed, listed_references
from suisei.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

    from suisei.data.image_bytes import ImageBytes

LANGUAGE_NAMES = {"ja": "Japanese", "en": "English"}
LANGUAGES = tuple(LANGUAGE_NAMES)
MAX_CAPTION_CHARACTERS = 10_000
"""Longest caption accepted, in characters. A longer one is a broken file, not a caption."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_JAPANESE = re.compile(
    "["
    "\u3005-\u3007"  # 々〆〇
    "\u3040-\u30ff"  # hiragana, katakana
    "\u3400-\u9fff"  # CJK ideographs
    "\uf900-\ufaff"  # compatibility ideographs
    "\uff66-\uff9f"  # half-width katakana
    "]"
)
_LATIN_WORD = re.compile("[A-Za-z][A-Za-z'’]+")
_BREAKS = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
"""White space that encoders drop, so that the words around it would be one."""
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x9f]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Marks that nobody sees: soft hyphens, spaces of no width, marks of direction, variants of a sign."""
_HALF_WIDTH = re.compile("[\uff66-\uff9f]+")
_INVISIBLE = frozenset(
    "\u115f\u1160\u2800\u3164\uffa0"
)  # fillers and the empty braille cell: letters, in name


@dataclass(frozen=True, slots=True)
class Rating:
    """What one or several people gave a caption, on the scale they used.

    Attributes:
        values: one finite number per rater, in the units of the scale.
        low: the worst rating that the scale allows.
        high: the best rating that the scale allows.

    Raises:
        DataError: no value, a value that is NaN or outside [low, high], or an empty scale.
    """

    values: tuple[float, ...]
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Iterable):
            raise DataError(f"rating values must be a list of numbers, got {self.values!r:.60}")
        object.__setattr__(self, "values", tuple(checked_number("rating", value) for value in self.values))
        for bound in ("low", "high"):
            object.__setattr__(self, bound, checked_number("rating scale", getattr(self, bound)))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DataError(f"rating scale must be low < high and finite, got {self.low:g} to {self.high:g}")
        if not self.values:
            raise DataError("rating has no value; leave it out for an unrated sample")
        for value in self.values:
            if not math.isfinite(value):
                raise DataError(f"rating is {value:g}; leave it out for an unrated sample")
            if not self.low <= value <= self.high:
                raise DataError(
                    f"rating {value:g} is outside the scale {self.low:g} to {self.high:g}; "
                    "fix the value or pass the right rating scale"
                )

    @property
    def scaled(self) -> np.ndarray:
        """The values mapped linearly to [0, 1], float64 of shape [raters]."""
        return (np.asarray(self.values, dtype=np.float64) - self.low) / (self.high - self.low)

    @property
    def mean(self) -> float:
        """The mean over raters, mapped to [0, 1]."""
        return float(self.scaled.mean())


def checked_number(field: str, value: Any) -> float:
    """Return a number as float.

    Raises:
        DataError: it is text, a truth value or something else, or too large; ``field`` is named.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        quoted = isinstance(value, str)
        hint = "; write numbers without quotes, and leave out what is not known" if quoted else ""
        raise DataError(f"{field} must be a number, got {type(value).__name__} {value!r:.60}{hint}")
    try:
        return float(value)
    except OverflowError:
        raise DataError(f"{field} is too large a number: {str(value)[:20]}...") from None


@dataclass(frozen=True, slots=True)
class CaptionSample:
    """A candidate caption, what it is compared with, and what people said of it.

    Validated once, when it is made; everything downstream may rely on it.

    Attributes:
        candidate: the caption to be scored; not blank. White space around it is taken off.
        references: captions written by people for the same image, in any order; may be empty. White space
            around them is taken off.
        image: path of the image file, or None where there is no image; or the image itself: its file's bytes
            (:class:`~suisei.data.image_bytes.ImageBytes`), a PIL image,
            a NumPy array (uint8 [H, W, 3] or [H, W]) or a torch tensor (uint8, or floats in [0, 1],
            [3, H, W]), of which the last two are kept as PIL images.
        rating: human ratings; a bare number is taken as a single rating in [0, 1]. Text is refused.
        language: "ja", "en" or None (unknown: detected from the candidate where it matters).
        system: the captioning system that produced the candidate, for system-level figures; as
            :func:`plain_name` has it.
        group: what must not be split between training and test, usually the image. It stays as it is written,
            which files of references and images go by; groups that look alike are one.
        id: the caller's name for the sample, carried through to every output.

    Raises:
        DataError: a candidate or reference that is no text, has no visible character or over 10,000
            characters, an unknown language, a rating out of its scale, or a field of the wrong type.
    """

    candidate: str
    references: tuple[str, ...] = ()
    image: str | Path | Image | ImageBytes | None = None
    rating: Rating | None = None
    language: str | None = None
    system: str | None = None
    group: str | None = None
    id: str | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            candidate: str,
            references: Iterable[str] | None = (),
            image: str | Path | Image | ImageBytes | Any = None,
            rating: Rating | float | None = None,
            language: str | None = None,
            system: str | None = None,
            group: str | None = None,
            id: str | None = None,  # noqa: A002 - the field's name
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidate", checked_caption("candidate", self.candidate))
        references = enumerate(listed_references(self.references), start=1)
        checked = tuple(checked_caption(f"reference {number}", text) for number, text in references)
        object.__setattr__(self, "references", checked)
        if self.language is not None and not (isinstance(self.language, str) and self.language in LANGUAGES):
            raise DataError(f"language is {self.language!r}; expected one of {', '.join(LANGUAGES)}, or none")
        if self.rating is not None and not isinstance(self.rating, Rating):
            object.__setattr__(self, "rating", Rating((self.rating,)))
        for field in ("system", "group", "id"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise DataError(f"{field} must be text, got {type(value).__name__} {value!r:.60}")
        if self.system is not None:
            object.__setattr__(self, "system", plain_name(self.system))
        if self.image is not None and not isinstance(self.image, Path):
            from suisei.data.arrays import as_source  # imports Pillow

            object.__setattr__(self, "image", as_source(self.image))


def checked_caption(field: str, caption: Any) -> str:
    """Return a caption if it can be one, as :func:`plain_text` has it: what nobody sees would move scores.

    Raises:
        DataError: it is not text, has no visible character, a broken one, or too many; ``field`` is named.
    """
    if not isinstance(caption, str):
        advice = "; decode it: caption.decode()" if isinstance(caption, bytes) else ""
        raise DataError(f"{field} must be text, got {type(caption).__name__} {caption!r:.60}{advice}")
    if is_blank(caption):
        hidden = f", only invisible ones such as {caption[:10]!a}" if caption.strip() else ""
        raise DataError(f"{field} is empty; every caption needs at least one visible character{hidden}")
    refuse_surrogate(field, caption)
    if len(caption) > MAX_CAPTION_CHARACTERS:
        raise DataError(
            f"{field} has {len(caption):,} characters, more than {MAX_CAPTION_CHARACTERS:,}; "
            f"it begins {caption[:40]!r} and is probably a broken row"
        )
    return plain_text(str(caption))


def check_captions(place: str, captions: Sequence[Any]) -> None:
    """Make sure that each text can be a caption, see :func:`checked_caption`.

    Raises:
        DataError: one cannot; ``place`` and its number, from 1, are named.
    """
    for number, caption in enumerate(captions, 1):
        checked_caption(f"{place} {number}", caption)


def plain_text(text: str) -> str:
    """Return a text as it looks: no white space around it, no marks that nobody sees, characters composed.

    Half-width kana are katakana then. Joiners of emoji stay. Control characters go, or become a space where
    they are white space that encoders do not know; tabs and ends of lines, which they know, stay.
    """
    if not text.isprintable():
        text = _CONTROLS.sub("", _BREAKS.sub(" ", text))
    if not text.isascii():
        text = _HALF_WIDTH.sub(lambda kana: unicodedata.normalize("NFKC", kana[0]), _UNSEEN.sub("", text))
        text = unicodedata.normalize("NFC", text)
    return text.strip()


def plain_name(name: str) -> str:
    """Return the name of a group or a system as it looks: no white space around it, characters composed."""
    return (name if name.isascii() else unicodedata.normalize("NFC", name)).strip()


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character, so that it is no caption."""
    return not any(map(_is_visible, text))


def is_wordless(text: str) -> bool:
    """Return whether a text has no letter, digit or emoji: it is blank, or punctuation alone."""
    return not any(map(_is_said, text))


def refuse_surrogate(field: str, text: str) -> None:
    """Make sure that a text holds no half of a surrogate pair, which no file can hold.

    Raises:
        DataError: it does; ``field`` is named.
    """
    if not text.isascii() and _SURROGATE.search(text):
        raise DataError(f"{field} holds a broken character (half of a surrogate pair): {text[:40]!a}")


def without_surrogates(text: str) -> str:
    """Return a text that any file can hold: halves of surrogate pairs as escapes, the rest as it is."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_visible(character: str) -> bool:
    if character.isalnum() and character not in _INVISIBLE:  # nearly always, and quick
        return True
    category = unicodedata.category(character)
    return category[0] not in "ZM" and category not in ("Cc", "Cf") and character not in _INVISIBLE


def _is_said(character: str) -> bool:
    said = character.isalnum() or unicodedata.category(character) == "So"
    return said and character not in _INVISIBLE


def detect_language(text: str) -> str:
    """Return "ja" if ``text`` has kana or CJK characters, as many as Latin words or more, else "en".

    An English caption may quote a sign, a Japanese one may name a brand; there is no third language.
    """
    if text.isascii():
        return "en"
    count = len(_JAPANESE.findall(text))
    return "ja" if count and count >= len(_LATIN_WORD.findall(text)) else "en"


def language_of(sample: CaptionSample) -> str:
    """Return the sample's language: as stated, else as the candidate's characters show it."""
    return sample.language or detect_language(sample.candidate)


def mean_ratings(samples: Sequence[CaptionSample]) -> np.ndarray:
    """Return the mean rating of each sample in [0, 1], float64 [N]; NaN where nobody rated it."""
    return np.array([np.nan if s.rating is None else s.rating.mean for s in samples], dtype=np.float64)


def make_samples(candidates: Any, references: Any = None, images: Any = None) -> list[CaptionSample]:
    """Zip parallel columns into samples, by position: labels of a Series are not looked at.

    Args:
        candidates: N captions, as a list, tuple, array, Series or generator.
        references: N lists of captions, or None.
        images: N images as :class:`CaptionSample` takes them (None where one is missing), or None.

    Raises:
        DataError: a column has no order, they differ in length, or a sample is invalid; the position is
            named.
    """
    captions = listed("candidates", candidates)
    columns: dict[str, list[Any]] = {}
    for name, column in (("references", references), ("images", images)):
        columns[name] = [None] * len(captions) if column is None else listed(name, column)
        if len(columns[name]) != len(captions):
            raise DataError(
                f"{name} has {len(columns[name])} entries, candidates has {len(captions)}; they must match"
            )
    samples = []
    rows = zip(captions, columns["references"], columns["images"], strict=True)
    for position, (caption, own, image) in enumerate(rows):
        try:
            sample = CaptionSample(caption, own, image)
            refuse_lists(sample.references)
        except DataError as error:
            raise DataError(f"sample {position}: {error}") from None
        samples.append(sample)
    return samples
