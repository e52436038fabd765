"""Readers of images and videos, of results, splits and tables."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import mutations as change
from tests.fuzz.readers import BY_SUFFIX, CONFIG, RECORDS, Made, Reader, exhaust, lines_of


def pictures() -> list[bytes]:
    """Return small images of every format and kind of pixel that is read, and some that are not."""
    from PIL import Image, PngImagePlugin

    random = Random(0)
    base = Image.frombytes("RGB", (24, 18), random.randbytes(24 * 18 * 3))
    frames = [Image.new("RGB", (24, 18), colour) for colour in ("blue", "red")]
    text = PngImagePlugin.PngInfo()
    text.add_text("comment", "x" * 40, zip=True)
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a dog"
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (base, "JPEG", {"exif": exif}),
        (base, "JPEG", {"progressive": True, "quality": 40}),
        (base.convert("L"), "JPEG", {}),
        (base.convert("CMYK"), "JPEG", {}),
        (base, "PNG", {"pnginfo": text}),
        (base.convert("RGBA"), "PNG", {"exif": exif}),
        (base.convert("P"), "PNG", {"transparency": 3}),
        (base.convert("1"), "PNG", {}),
        (base.convert("LA"), "PNG", {}),
        (base.convert("I"), "PNG", {}),
        (base, "PNG", {"save_all": True, "append_images": frames}),
        (base, "WEBP", {}),
        (base, "WEBP", {"lossless": True}),
        (base.convert("RGBA"), "WEBP", {"save_all": True, "append_images": frames}),
        (base, "GIF", {"save_all": True, "append_images": frames}),
        (base.convert("P"), "GIF", {"transparency": 1}),
        (base, "BMP", {}),
        (base.convert("P"), "BMP", {}),
        (base.convert("1"), "BMP", {}),
        (base, "TIFF", {}),
        (base, "TIFF", {"compression": "tiff_lzw"}),
        (base, "TIFF", {"compression": "tiff_adobe_deflate"}),
        (base, "TIFF", {"compression": "jpeg"}),
        (base.convert("1"), "TIFF", {"compression": "group4"}),
        (base.convert("F"), "TIFF", {}),
        (base.convert("I;16"), "TIFF", {}),
        (base, "PPM", {}),
        (base.convert("1"), "PPM", {}),
        (base, "ICO", {}),
        (base, "TGA", {}),
    ]
    found = []
    for image, kind, options in kinds:
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        found.append(stream.getvalue())
    return [
        *found,
        b"P3\n2 2\n255\n1 2 3 4 5 6 7 8 9 10 11 12\n",
        b"Pf\n2 1\n-1.0\n" + bytes(8),
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
    ]


def _image(folder: Path) -> Made:
    from suisei.data.images import content_key, load_image, read_image
    from suisei.errors import SuiseiError

    path = folder / "picture"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(SuiseiError):
            assert load_image(path).mode == "RGB"
        if len(data) % 8 == 0:
            read_image(path, lambda image: image.size)
        content_key(path)

    return pictures(), read


def _video(folder: Path) -> Made:
    import av
    import numpy as np

    from suisei.data.video import VideoSample, iter_frames

    path = folder / "film.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.pix_fmt, stream.width, stream.height = "yuv420p", 32, 32
        for number in range(6):
            picture = np.full((32, 32, 3), 40 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    seed = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        exhaust(iter_frames(path))
        VideoSample("a dog", video=path)

    return [seed], read


def _report() -> dict[str, Any]:
    cell = {"value": 0.5, "low": 0.25, "high": 0.75, "reason": None}
    return {
        "title": "Results", "columns": {"tau-b": "tau b", "n": "n"}, "notes": ["a note"], "digits": 3,
        "sections": [
            {
                "title": "overall",
                "rows": [
                    {
                        "label": "suisei", "cells": {"tau-b": cell, "n": {"value": 5}}, "signature": "x|v:1",
                        "best": ["n"], "quantiles": {"0.5": 0.1},
                        "examples": {"a": {"original": "x", "changed": "y", "before": 1, "after": 0}},
                    },
                    {"label": "bleu-4", "cells": {"tau-b": {"value": None, "reason": "no"}}, "error": "gone"},
                ],
            }
        ],
        "settings": {"raters": "rows"},
    }  # fmt: skip


def _tar(folder: Path) -> Made:
    """Shards as img2dataset writes them, in the three layouts of tar."""
    import tarfile

    from suisei.data.shards import shard_rows

    picture = pictures()[0]
    seeds = []
    for layout in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=layout) as archive:
            for number, key in enumerate(("000000000", "n" * 90, "猫" if layout else "cat")):
                said = {"key": key, "uid": f"{number:032x}", "caption": "a dog", "status": "success"}
                for end, content in ((".jpg", picture), (".txt", b"a dog"), (".json", lines_of([said]))):
                    member = tarfile.TarInfo(key + end)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        seeds.append(stream.getvalue())

    def read(data: bytes) -> None:
        path = folder / "00000.tar"
        path.write_bytes(data)
        exhaust(shard_rows(path, {}, pictured=len(data) % 4 == 0))

    return seeds, read


def _reports(folder: Path) -> Made:
    """The JSON of a command or the folder of a run, made into a page."""
    import os

    from suisei.data.figures import new_figure
    from suisei.report.contents import part_of
    from suisei.report.html import render
    from suisei.report.stored import read_result

    os.chdir(folder)
    new_figure((1, 1))  # imports what an input's time must not be spent on
    run = folder / "run"
    (run / "logs" / "version_0").mkdir(parents=True)
    samples = [r for r in RECORDS if "candidate" in r and "reference_1" not in r]
    for record in samples:
        record = {key: value for key, value in record.items() if key != "image"}
    valid = {
        "report.json": json.dumps(
            {"results": _report(), "command": {"options": 1}, "data": {"sources": ["x"]}}
        ).encode(),
        "test.jsonl": lines_of([{k: v for k, v in r.items() if k != "image"} for r in samples]),
        "test_scores.jsonl": lines_of([{"id": "1", "suisei": 0.5}, {"id": "2", "suisei": 0.25}]),
        "config.yaml": CONFIG,
        "logs/version_0/metrics.csv": b"step,epoch,train_loss,valid_tau\n1,0,0.5,\n2,0,,0.25\n",
    }
    for name, content in valid.items():
        (run / name).write_bytes(content)
    command = {"command": {"data": str(run / "test.jsonl"), "save_scores": str(run / "test_scores.jsonl")}}

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        path = folder / name.decode()
        before = path.read_bytes() if path.exists() else b""
        path.write_bytes(content)
        try:
            result = read_result(run if name.startswith(b"run/") else path)
            if len(data) % 32 == 0:  # a page takes a hundred times as long
                render(result.title, [part_of(result)])
        finally:
            path.write_bytes(before)

    seeds = [b"run/" + name.encode() + b"\0" + content for name, content in valid.items()]
    return [
        *seeds,
        b"a.json\0" + json.dumps({"results": _report(), **command}).encode(),
        b"b.json\0" + json.dumps(_report()).encode(),
    ], read


def _small_files(folder: Path) -> Made:
    """Splits, idf tables, kept figures, facts of a run: JSON of our own that somebody may have edited."""
    from suisei.ablation.differences import read_result
    from suisei.adapters.hub_card import hub_card, read_run
    from suisei.data.idf import IdfTable
    from suisei.data.sample import CaptionSample
    from suisei.data.splits import Split
    from suisei.errors import SuiseiError
    from suisei.examination.kept import _read as read_kept
    from suisei.metrics.matching import load_idf

    samples = [
        CaptionSample("a dog", group="a"),
        CaptionSample("x", group="b"),
        CaptionSample("y", group="c"),
    ]
    test = b"".join(json.dumps({"id": str(n), "candidate": "a dog"}).encode() + b"\n" for n in range(2))
    (folder / "test.jsonl").write_bytes(test)
    scores = b'{"id": "0", "suisei": 0.5}\n{"id": "1", "suisei": null}\n'
    (folder / "test_scores.jsonl").write_bytes(scores)
    report = json.dumps(
        {"results": _report(), "data": {"sources": ["x.jsonl"]}, "training": {"minutes": 1}}
    ).encode()
    (folder / "report.json").write_bytes(report)
    valid: dict[str, Any] = {
        "split.json": {
            "groups": {"train": ["a"], "validation": ["b"], "test": ["c"]},
            "method": "x",
            "seed": 3,
            "disjoint": "group",
        },
        "crossed.json": {
            "groups": {"train": ["a"], "validation": ["b"], "test": ["c"]},
            "disjoint": "crossed",
            "crossing": [0, 3, 1],
        },
        "idf.json": {"documents": 4, "frequencies": {"1": 2, "5": 4}},
        "token-idf.json": {"documents": 4, "frequencies": {"1": 2}, "end": 7, "corpus": "x"},
    }

    def run(path: Path) -> None:
        facts = read_run(path.parent)
        hub_card("a/b", "# card\n", facts)

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        path = folder / name.decode()
        path.write_bytes(content)
        functions = {
            "split.json": lambda p: Split.load(p, samples), "crossed.json": lambda p: Split.load(p, samples),
            "idf.json": lambda p: IdfTable.load(p).weights(50), "token-idf.json": load_idf,
            "README.md": lambda p: hub_card("a/b", p.read_text("utf-8", "replace"), read_run(folder)),
        }  # fmt: skip
        try:
            functions.get(path.name, run)(path)
        except SuiseiError:
            pass
        finally:
            read_kept(path)
            if path.name not in functions:
                try:
                    read_result(folder)
                finally:
                    for one, content in (
                        ("test.jsonl", test),
                        ("test_scores.jsonl", scores),
                        ("report.json", report),
                    ):
                        (folder / one).write_bytes(content)

    card = b"---\nlicense: mit\nlanguage: [ja]\nmodel-index:\n- name: x\n  results: []\n---\n# A model\n"
    return [
        *(name.encode() + b"\0" + json.dumps(value).encode() for name, value in valid.items()),
        b"report.json\0" + report, b"test_scores.jsonl\0" + scores, b"test.jsonl\0" + test,
        b"README.md\0" + card,
    ], read  # fmt: skip


def _resumed(folder: Path) -> Made:
    """The rows of a run that was cut off, and the note beside them, as they are read when it goes on."""
    from suisei.scoring.output import FileOutput

    signatures, basis = {"length": "length|v:1", "x": "x|v:2"}, {"references": "rows"}
    note = (
        json.dumps({"part": _layout(), "signatures": signatures, "basis": basis}).encode()
        + b"\n"
        + (b"0" * 32 + b"\n") * 2
    )
    parts = {
        "a.jsonl.part": lines_of(
            [{"id": "1", "length": 0.5, "x": None}, {"id": 2, "length": None, "x": 1, "error": "no"}]
        ),
        "b.csv.part": b'id,length,x,error\r\n1,0.5,,\r\n2,,1,"two\nlines"\r\n',
    }

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        part = name.decode().removesuffix(".json")
        (folder / part).write_bytes(parts[part])
        (folder / f"{part}.json").write_bytes(note)
        (folder / name.decode()).write_bytes(content)
        output = FileOutput(folder / part.removesuffix(".part"), signatures, resume=True, basis=basis)
        try:
            exhaust(output.finished())
        finally:
            output.close()

    notes = [f"{name}.json".encode() + b"\0" + note for name in parts]
    return [*(name.encode() + b"\0" + content for name, content in parts.items()), *notes], read


def _layout() -> Any:
    from suisei.scoring import output

    return output._LAYOUT


def _change_part(random: Random, data: bytes) -> bytes:
    name, _, content = data.partition(b"\0")
    return name + b"\0" + change.change_json_lines(random, content)


READERS: dict[str, Reader] = {
    "image": Reader(_image, change.change_image, 100),
    "tar": Reader(_tar, change.change_tar, 30),
    "video": Reader(_video, change.change_bytes, 1),
    "report": Reader(_reports, change.change_named(BY_SUFFIX), 2),
    "facts": Reader(_small_files, change.change_named(BY_SUFFIX), 40),
    "resumed": Reader(_resumed, _change_part, 30),
}
