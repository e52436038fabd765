"""Captions as rows of a file: JSON lines that are scored as they are, or COCO's results."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from suisei.captioning.caption_inputs import Wanted
from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_writing import Written
from suisei.data.caption_texts import is_json, is_json_lines
from suisei.data.compressed import is_gzip
from suisei.data.outputs import Named, check_outputs
from suisei.data.part_files import part_of
from suisei.data.paths import is_stream
from suisei.data.sample import without_surrogates
from suisei.data.writers import replacing, stored_name
from suisei.errors import ConfigError

EMPTY = "the caption decoded to nothing"
NOT_UTF8 = "the image's name or id is not UTF-8, so that no row can name it; rename it"
_COCO_NAME = re.compile(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)\.(?:jpg|jpeg|png)", re.IGNORECASE)


@dataclass
class Counts:
    """What became of the images.

    Attributes:
        images: how many there were.
        captioned: how many have a caption with a word in it.
        broken: ids of those that could not be read.
        unnamed: ids of those that could, whose name or id no file of UTF-8 can hold.
        empty: ids of those that got a caption without a word.
    """

    images: int = 0
    captioned: int = 0
    broken: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def check_target(output: str, logs: Sequence[Named] = (), inputs: Sequence[Named] = ()) -> None:
    """Refuse a file that captions cannot be written to, before any work.

    Args:
        output: the file, or "-" for standard output.
        logs: what else is written, by option.
        inputs: what is read, by option.

    Raises:
        ConfigError: it is of another kind, cannot be written, or is one of the others.
    """
    if output != "-" and not (is_json(output) or is_json_lines(output)):
        raise ConfigError(f"--output {output}: the name must end in .jsonl, or in .json for COCO results")
    if is_gzip(output):
        raise ConfigError(f"--output {output}: captions are not compressed; leave .gz out")
    outputs: list[Named] = []
    if output != "-":
        outputs += [("--output", output)]
        outputs += [] if is_stream(output) else [("--output's part file", part_of(Path(output)))]
    check_outputs([*outputs, *logs], inputs)


def write_rows(
    output: str,
    wanted: Sequence[Wanted],
    written: Iterator[Written],
    decoding: Decoding,
    language: str,
    advance: Callable[[int], Any] = lambda _: None,
) -> Counts:
    """Write the captions of images, in order; the file is there once it is complete.

    Args:
        output: a .jsonl or .json file, or "-" for standard output.
        wanted: the images.
        written: what became of each of them.
        decoding: how captions were chosen; of beams the best alone is written, of samples all.
        language: of the captions.
        advance: called with 1 for each image.

    Raises:
        DataError: the file cannot be written.
    """
    counts = Counts()

    def rows() -> Iterator[dict[str, Any]]:
        for image, found in zip(wanted, written, strict=True):
            yield from _rows_of(image, _place(image.image, output), found, decoding, language, counts)
            advance(1)  # its rows are written

    if output == "-":
        _write_lines(sys.stdout, rows())
    else:
        with replacing(Path(output)) as temporary, temporary.open("w", encoding="utf-8") as stream:
            if is_json(output):
                results = coco_results([row for row in rows() if "candidate" in row])
                stream.write(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
            else:
                _write_lines(stream, rows())
    return counts


def _place(image: Path, output: str) -> str:
    """Return how the rows of an output name an image; COCO's results name no folder."""
    if is_json(output):
        return image.name
    return str(image) if output == "-" else stored_name(image, Path(output))


def _write_lines(stream: TextIO, rows: Iterator[dict[str, Any]]) -> None:
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    stream.flush()


def _rows_of(
    image: Wanted, place: str, found: Written, decoding: Decoding, language: str, counts: Counts
) -> Iterator[dict[str, Any]]:
    counts.images += 1
    base = {"id": image.id, "image": place}
    named = {name: without_surrogates(text) for name, text in base.items()}
    problem = found.problem or (NOT_UTF8 if named != base else "")
    if problem:
        (counts.broken if found.problem else counts.unnamed).append(image.id)
        yield {**named, "error": without_surrogates(problem)}
        return
    kept = len(found.captions) if decoding.method == "sample" else 1
    texts = found.captions[:kept]
    if not all(text.strip() for text in texts):
        counts.empty.append(image.id)
    counts.captioned += any(text.strip() for text in texts)
    references = image.references_in(language)
    for number, (text, log_prob) in enumerate(zip(texts, found.log_probs, strict=False), 1):
        row: dict[str, Any] = {
            **base,
            "candidate": text,
            "language": language,
            "log_prob": round(log_prob, 4),
        }
        if references:
            row["references"] = references
        if kept > 1:
            row["id"] = f"{image.id}#{number}"
        if not text.strip():
            row["error"] = EMPTY
        yield row


def coco_results(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as COCO has them, where a number of several images, of two folders say, is no one's id."""
    numbers = [_number(row) for row in rows]
    counts = Counter(
        number for number, _ in {(number, row["id"]) for number, row in zip(numbers, rows, strict=True)}
    )
    return [
        {
            "image_id": row["id"] if number is None or counts[number] > 1 else number,
            "caption": row["candidate"],
        }
        for row, number in zip(rows, numbers, strict=True)
    ]


def _number(row: dict[str, Any]) -> int | None:
    """Return the number in the name of COCO's files, else the id if it is one."""
    number = _COCO_NAME.fullmatch(Path(row["image"]).name)
    plain = str(row["id"])
    if number and Path(row["image"]).name == Path(plain).name:
        return int(number[1])
    return int(plain) if plain.isascii() and plain.isdigit() else None
