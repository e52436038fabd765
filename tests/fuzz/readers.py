"""Every reader of what others may have written: what it is given, and which changes of that are tried.

A reader is a function that makes its seeds, valid inputs, and returns what reads one input. What it may do is
give a result or raise one of suisei's own errors. A new reader is an entry of READERS; its file lies in the
folder that it is handed, which no other process uses.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz import mutations as change
from tests.fuzz.mutations import Mutator

Read = Callable[[bytes], object]
Made = tuple[list[bytes], Read]


@dataclass(frozen=True)
class Reader:
    """One reader under test.

    Attributes:
        prepare: given a folder, returns valid inputs and what reads an input.
        mutate: how inputs are changed.
        share: of all inputs that are tried, how many of a thousand are for it.
    """

    prepare: Callable[[Path], Made]
    mutate: Mutator
    share: int


def exhaust(items: Iterable[Any]) -> None:
    """Read a stream to its end."""
    for _ in items:
        pass


def lines_of(records: Iterable[Any]) -> bytes:
    """Return records as JSON Lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


RECORDS: list[dict[str, Any]] = [
    {
        "id": "1", "candidate": "a dog runs", "references": ["a dog", "two dogs"], "image": "a.png",
        "rating": [4, 3.5], "rating_scale": [1, 5], "language": "en", "system": "one", "group": "a",
    },
    {"id": 2, "candidate": "犬が走る", "references": [], "rating": 0.5, "language": "ja"},
    {"mt": "a cat", "src": "猫", "ref": "the cat", "score": 0.25, "imgid": "7", "img": "a.png"},
    {"candidate": "赤いボール \u202e\u2028 ok", "reference_1": "a", "reference_2": "b", "video": None},
]  # fmt: skip
CSV = (
    "id,candidate,references,rating,rating_scale,image,language\r\n"
    '1,"a dog, running","[""a dog"", ""x""]",4,"[1, 5]",a.png,en\r\n'
    "2,犬が走る,,0.5,,,ja\r\n"
    '3,"two\nlines ""quoted""",猫,[3],"[1, 5]",,\r\n'
).encode()


def _picture(folder: Path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8), "red").save(folder / "a.png")


def _rows_of(suffix: str, seeds: list[bytes]) -> Callable[[Path], Made]:
    def prepare(folder: Path) -> Made:
        from suisei.data.formats import iter_rows

        _picture(folder)
        path = folder / f"rows{suffix}"
        (folder / "references.txt").write_text("one\ntwo\nthree\n")

        def read(data: bytes) -> None:
            path.write_bytes(data)
            exhaust(iter_rows(path, note=len))
            if len(data) % 16 == 0:
                exhaust(iter_rows(path, note=len, images=folder, references=[folder / "references.txt"]))

        return seeds, read

    return prepare


JSON_DOCUMENTS = [
    json.dumps([{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "犬"}]).encode(),
    json.dumps({"1": "a dog", "2": ["犬"], "3": {"candidate": "x", "references": ["y"]}}).encode(),
    json.dumps(RECORDS).encode(),
    json.dumps(RECORDS[0], indent=1).encode(),
    json.dumps([{"1": "a dog"}, {"2": ["a cat"]}]).encode(),
]
ANNOTATIONS = json.dumps(
    {
        "info": {"year": 2014},
        "images": [{"id": 1, "file_name": "a.png", "width": 4}, {"id": 2, "file_name": "b.png"}],
        "annotations": [
            {"id": 5, "image_id": 1, "caption": "a dog"},
            {"id": 6, "image_id": 2, "caption": "犬"},
            {"id": 7, "image_id": 1, "caption": "two dogs"},
        ],
    }
).encode()


def _parquet(folder: Path) -> Made:
    import io

    import pyarrow
    import pyarrow.parquet

    from suisei.data.formats import iter_rows

    _picture(folder)
    path = folder / "rows.parquet"
    columns: dict[str, Any] = {
        "id": ["1", "2", None], "candidate": ["a dog", "犬", "x" * 400], "references": [["a"], None, ["b"]],
        "rating": [1.0, None, 0.5], "image": ["a.png", None, None], "extra": [b"\xff", b"", None],
    }  # fmt: skip
    kinds = [
        (columns, "none"), (columns, "snappy"), (columns, "gzip"),
        ({"caption": ["a"] * 50, "score": list(range(50)), "when": [1.5] * 50}, "zstd"),
        ({"candidate": pyarrow.array(["a", "b"]).dictionary_encode(), "n": [{"a": 1}, None]}, "none"),
        ({"candidate": pyarrow.array([b"\xff\xfe", b"ok"]).cast(pyarrow.binary())}, "none"),
    ]  # fmt: skip
    seeds = []
    for values, compression in kinds:
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(values), stream, compression=compression)
        seeds.append(stream.getvalue())

    def read(data: bytes) -> None:
        path.write_bytes(data)
        exhaust(iter_rows(path, note=len))

    return seeds, read


def _coco(folder: Path) -> Made:
    from suisei.data.coco import has_result_rows, read_references, read_results
    from suisei.errors import SuiseiError

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        path = folder / name.decode()
        path.write_bytes(content)
        for function in (has_result_rows, read_results, lambda p: read_references([p])):
            try:
                function(path)
            except SuiseiError:
                continue

    seeds = [b"a.json\0" + document for document in (*JSON_DOCUMENTS, ANNOTATIONS)]
    lines = lines_of([{"image_id": 1, "captions": ["a", "b"]}, {"image_id": "x", "captions": ["犬"]}])
    return [
        *seeds,
        b"b.jsonl\0" + lines,
        b"c.txt\0one\ntwo\n\n",
        b"d.jsonl.gz\0" + gzip.compress(lines, mtime=0),
    ], read


def _systems(folder: Path) -> Made:
    """Several systems' outputs, joined."""
    from suisei.data.system_outputs import load_systems

    other, references = folder / "other.json", folder / "references.json"
    other.write_bytes(JSON_DOCUMENTS[0])
    references.write_bytes(ANNOTATIONS)
    path = folder / "one.json"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        load_systems([str(path), str(other)], references=[str(references)], on_error="skip")

    return [
        JSON_DOCUMENTS[0],
        JSON_DOCUMENTS[1],
        b'[{"image_id": 2, "caption": "x"}, {"image_id": 1, "caption": "\xe7\x8c\xab"}]',
    ], read


CONFIG = b"""# a run
seed_everything: 3
task: null
output: runs/x
model:
  text: {name: tiny, tiny: {vocabulary: 200, width: 16, layers: 2}}
  image: null
  head: {hidden: [12, 8], dropout: 0.1}
  optimizer: &o {head_lr: 1.0e-3}
data:
  train: scenes
  fractions: [0.8, 0.1, 0.1]
  batch_size: 8
trainer:
  max_epochs: 2
  accelerator: cpu
  logger: false
early_stopping: {patience: 3}
"""
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)
)


def _config(folder: Path) -> Made:
    from suisei.training.run_settings import read_config

    path = folder / "config.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_config(path)

    return [
        CONFIG,
        BOMB,
        b"a: !!python/object/apply:os.mkdir [x]\n",
        b"? [a]\n: b\n",
        b"- 1\n- 2001-01-01\n",
    ], read


def _settings(folder: Path) -> Made:
    """A config through the whole command line of training, without anything being made."""
    import os

    import suisei.commands.train  # noqa: F401 - what an input's time must not be spent on
    from suisei.commands.ablate import resolve

    os.chdir(folder)
    path = folder / "config.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        resolve(["--config", str(path)])

    return [CONFIG], read


def _manifest(folder: Path) -> Made:
    """Manifests of positives, training pairs, and what positives are made of."""
    import hashlib

    from suisei.data.pairs import is_pairs, load_different_pairs, load_pairs
    from suisei.errors import SuiseiError
    from suisei.pacs.manifest import read_positives
    from suisei.pacs.positive_writer import PositiveWriter
    from suisei.pacs.sources import read_sources

    _picture(folder)
    (folder / "images").mkdir(exist_ok=True)
    picture = (folder / "a.png").read_bytes()
    (folder / "images" / "x.png").write_bytes(picture)
    path = folder / "captions.jsonl"
    origin = {"model": "m", "revision": "r", "seed": 1, "run_seed": 0, "settings": {"steps": 2}}
    digest = hashlib.sha256(picture).hexdigest()
    positives = lines_of(
        [
            {"kind": "captions", "source": "file-1", "caption": "a dog", **origin},
            {
                "kind": "images",
                "source": "text-1",
                "caption": "犬",
                "file": "images/x.png",
                "sha256": digest,
                **origin,
            },
            {"kind": "captions", "source": "file-2", "problem": "declined", "id": "7", **origin},
        ]
    )
    made = {"generated_images": ["images/x.png"], "generated_from": ["犬"]}
    pairs = lines_of([{"image": "a.png", "captions": ["a", "犬"], **made}])
    sources = lines_of([{"id": 1, "image": "a.png", "caption": "x"}, {"image": "a.png"}])

    def write(source: Path) -> None:
        with PositiveWriter(source.parent, "captions"):
            pass

    def left_out(source: str) -> None:
        load_different_pairs(source, "train", on_error="skip", told=False)

    def read(data: bytes) -> None:
        for function in (read_positives, is_pairs, load_pairs, left_out, read_sources, write):
            path.write_bytes(data)
            try:
                function(path if function in (read_positives, write) else str(path))  # type: ignore[operator]
            except SuiseiError:
                continue

    return [positives, pairs, sources], read


def _scores(folder: Path) -> Made:
    from suisei.data.sample import CaptionSample
    from suisei.scoring.scorefile import read_scores

    samples = [CaptionSample("a dog", id="1", group="a.jpg"), CaptionSample("犬", id="2", group="b.jpg")]
    nameless = [CaptionSample("a dog"), CaptionSample("犬")]

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        path = folder / name.decode()
        path.write_bytes(content)
        read_scores(path, samples if len(data) % 2 else nameless)

    fleur = b"image file : a.jpg\ncaption : a dog\nmodel score : 0.5\nour score : 0.25\n"
    fleur += "image file : b.jpg\ncaption : 犬\nour score : 1\n".encode()
    return [
        b"s.jsonl\0" + lines_of([{"id": "1", "score": 0.5, "x": None}, {"id": "2", "score": 1, "x": 2.5}]),
        b"s.csv\0id,score,x\r\n1,0.5,\r\n2,1,2.5\r\n",
        b"s.txt\0" + fleur,
    ], read


def named(folder: Path, seeds: list[Path]) -> list[bytes]:
    """Return files of a folder as inputs, each with its name before it."""
    return [path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() for path in seeds]


BY_SUFFIX: dict[str, Mutator] = {
    "json": change.change_json,
    "jsonl": change.change_json_lines,
    "gz": change.change_gzip,
    "txt": change.change_text,
    "csv": change.change_text,
    "safetensors": change.change_safetensors,
    "pt": change.change_zip,
    "ckpt": change.change_zip,
    "png": change.change_image,
}


def iter_readers() -> Iterator[tuple[str, Reader]]:
    """Yield every reader with its name."""
    from tests.fuzz import models, others, published

    for module in (others, published, models):
        READERS.update(module.READERS)
    yield from READERS.items()


READERS: dict[str, Reader] = {
    "jsonl": Reader(
        _rows_of(".jsonl", [lines_of(RECORDS), lines_of(RECORDS[:2])]), change.change_json_lines, 170
    ),
    "csv": Reader(_rows_of(".csv", [CSV]), change.change_text, 120),
    "tsv": Reader(_rows_of(".tsv", [CSV.replace(b",", b"\t")]), change.change_text, 50),
    "json": Reader(_rows_of(".json", JSON_DOCUMENTS), change.change_json, 80),
    "text": Reader(_rows_of(".txt", [b"a dog\nthe cat\n\xe7\x8c\xab\n"]), change.change_text, 30),
    "gzip": Reader(
        _rows_of(".jsonl.gz", [gzip.compress(lines_of(RECORDS), mtime=0)]), change.change_gzip, 30
    ),
    "parquet": Reader(_parquet, change.change_bytes, 80),
    "coco": Reader(_coco, change.change_named(BY_SUFFIX), 80),
    "systems": Reader(_systems, change.change_json, 30),
    "config": Reader(_config, change.change_text, 60),
    "settings": Reader(_settings, change.change_text, 1),
    "manifest": Reader(_manifest, change.change_json_lines, 50),
    "scores": Reader(_scores, change.change_named(BY_SUFFIX), 50),
}
