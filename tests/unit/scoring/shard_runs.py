"""Sets in tar shards, scored by the command, and what it writes."""

import io
import json
import tarfile

import pyarrow.parquet

from suisei.commands.score import main

METRICS = ("--metrics", "length,unigram-f1")
CAPTION = "a red ball on a table"


def write_tar(path, samples, cut=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for key, caption in samples.items():
            for kind, content in (
                ("txt", caption.encode()),
                (
                    "json",
                    json.dumps(
                        {"uid": f"{int(key):032x}", "references": [CAPTION, f"number {key}"]}
                    ).encode(),
                ),
            ):
                info = tarfile.TarInfo(f"{key}.{kind}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    if cut:
        path.write_bytes(path.read_bytes()[:cut])
    return path


def samples(first, count=5):
    words = CAPTION.split()
    return {str(n): " ".join(words[: 1 + n % len(words)]) for n in range(first, first + count)}


def run(folder, *options, shards="{00000..00002}.tar", status=0):
    arguments = [*METRICS, "--input", str(folder / "in" / shards), "--output", str(folder / "out"), *options]
    assert main(arguments) == status
    return {path.stem: path for path in sorted((folder / "out").rglob("*.parquet"))}


def table(path):
    return pyarrow.parquet.read_table(path).to_pylist()
