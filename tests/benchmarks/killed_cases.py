"""The commands that are killed: scoring in every format, evaluations, comparisons, captions, trainings."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Options
from tests.benchmarks.kills import Case, finished_rows
from tests.unit.commands.caption_runs import tiny_captioner

SCENES = Path(__file__).resolve().parents[2] / "data" / "scenes"
VOLATILE = ("minutes", "samples_per_second", "memory", "seconds", "machine")
"""What of a report is not the same in every run."""
TRAINING = """
seed_everything: 3
data: {train: DATA, batch_size: 8}
model:
  text: {name: tiny, tiny: {vocabulary: 300, width: 16, layers: 1}}
  image: {name: tiny, frozen: false, tiny: {width: 4, image_size: 64, features: 8}}
  head: {hidden: [16]}
  optimizer: {head_lr: 0.005, encoder_lr: 0.003, image_lr: 0.003}
trainer: {max_epochs: 2, accelerator: cpu, precision: 32-true, enable_progress_bar: false}
early_stopping: {patience: 9}
checkpoint_steps: 3
baselines: [length]
"""


def cases(work: Path, options: Options) -> dict[str, list[Case]]:
    """Return the commands by what they do; their inputs are written into a folder.

    Args:
        work: the folder.
        options: with the number of rows that are scored.
    """
    inputs = work / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    data = _write_inputs(inputs, options.killed_rows)
    return {
        "scoring": _scoring(data),
        "evaluating": [
            _evaluating(data),
            _comparing(data),
            _positives(data),
            _captioning(data),
            _probing(data),
        ],
        "training": _training(data),
    }


def _write_inputs(folder: Path, count: int) -> dict[str, Path]:
    rows = [json.loads(line) for line in (SCENES / "captions.jsonl").read_text("utf-8").splitlines()[:count]]
    for row in rows:
        row["image"] = str(SCENES / row["image"])
    bad = [dict(row) for row in rows]
    for row in bad[5::17]:
        row["candidate"] = ""
    for row in bad[9::23]:
        row["references"] = []
    data = {name: folder / name for name in ("rows.jsonl", "rows.jsonl.gz", "bad.jsonl", "rated.jsonl")}
    data["rows.jsonl"].write_text(_lines(rows), encoding="utf-8")
    data["bad.jsonl"].write_text(_lines(bad), encoding="utf-8")
    data["rated.jsonl"].write_text(_lines(rows[:90]), encoding="utf-8")
    data["rows.jsonl.gz"].write_bytes(gzip.compress(data["rows.jsonl"].read_bytes(), mtime=0))
    for system, step in (("one", 1), ("two", 2)):
        path = data[f"{system}.jsonl"] = folder / f"{system}.jsonl"
        own = {row["image"]: {**row, "candidate": row["candidate"][::step], "system": None} for row in rows}
        path.write_text(_lines(list(own.values())), encoding="utf-8")
    data["listed"] = folder / "listed.txt"
    data["listed"].write_text("".join(f"{name}\n" for name in dict.fromkeys(row["image"] for row in rows)))
    data["captioner"] = folder / "captioner"
    tiny_captioner().save(data["captioner"])
    data["config"] = folder / "small.yaml"
    data["config"].write_text(TRAINING.replace("DATA", str(data["rated.jsonl"])), encoding="utf-8")
    return data


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _scoring(data: dict[str, Path]) -> list[Case]:
    def start(rows: str, metrics: str) -> list[str]:
        return ["--input", str(data[rows]), "--metrics", metrics, "--window", "32"]

    light, bad = "counted,rouge-l,length", ["--on-error", "skip"]
    processes = ["--processes", "2"]
    return [
        _scored("JSONL", "s.jsonl", *start("rows.jsonl", light)),
        _scored("CSV", "s.csv", *start("bad.jsonl", light), *bad, beside=["s.csv.failed.jsonl"]),
        _scored("gzip", "s.jsonl.gz", *start("rows.jsonl.gz", "counted,bleu-4")),
        _scored("Parquet", "s.parquet", *start("rows.jsonl", "counted,cider")),
        _scored("a model", "s.tsv", *start("rows.jsonl", "counted,suisei")),
        _scored("2 processes", "s.jsonl", *start("rows.jsonl", "rouge-l,chrf"), *processes, forked=False),
    ]  # fmt: skip


def _scored(
    name: str, output: str, *arguments: str | Path, beside: Sequence[str] = (), forked: bool = True
) -> Case:
    def command(folder: Path) -> list[str]:
        own = ["--output", folder / output, "--summary", folder / "summary.json"]
        return ["score", *map(str, [*arguments, *own])]

    def again(folder: Path) -> list[str]:
        return [*command(folder), "--resume"]

    return Case(
        f"score, {name}", command, again, [output, "summary.json", *beside], forked,
        weight=1.0 if forked else 0.4, plain=_plain, finished=finished_rows,
    )  # fmt: skip


def _evaluating(data: dict[str, Path]) -> Case:
    def command(folder: Path) -> list[str]:
        arguments = ["--data", data["rows.jsonl"], "--metrics", "counted,rouge-l,cider", "--bootstrap", "20"]
        arguments += ["--keep", folder / "kept", "--json", folder / "e.json"]
        return ["evaluate", *map(str, [*arguments, "--save-scores", folder / "scores.jsonl"])]

    return _kept("evaluate", command, ["e.json", "scores.jsonl"])


def _comparing(data: dict[str, Path]) -> Case:
    def command(folder: Path) -> list[str]:
        arguments = [data["one.jsonl"], data["two.jsonl"], "--metrics", "counted,cider,bleu-4"]
        arguments += ["--bootstrap", "20", "--keep", folder / "kept", "--json", folder / "c.json"]
        return ["compare", *map(str, [*arguments, "--save-scores", folder / "scores.jsonl"])]

    return _kept("compare", command, ["c.json", "scores.jsonl"])


def _probing(data: dict[str, Path]) -> Case:
    """A row is in several probes, and so scored several times: what is scored again cannot be counted."""

    def command(folder: Path) -> list[str]:
        arguments = ["--data", data["rows.jsonl"], "--metrics", "length,rouge-l,cider", "--bootstrap", "20"]
        arguments += ["--keep", folder / "kept", "--json", folder / "p.json", "--limit", "40"]
        return ["probe", *map(str, arguments)]

    return _kept("probe", command, ["p.json"])


def _kept(name: str, command: Callable[[Path], list[str]], outputs: Sequence[str]) -> Case:
    return Case(name, command, command, outputs, plain=_plain, finished=finished_rows)


def _positives(data: dict[str, Path]) -> Case:
    def command(folder: Path) -> list[str]:
        arguments = ["captions", data["rows.jsonl"], "--model", "told", "--batch-size", "4"]
        return ["positives", *map(str, [*arguments, "--output", folder / "made"])]

    return Case("positives", command, command, ["made/captions.jsonl"], finished=_made)


def _made(folder: Path) -> set[str]:
    path = folder / "made" / "captions.jsonl"
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    return {str(json.loads(line)["seed"]) for line in lines}


def _captioning(data: dict[str, Path]) -> Case:
    def command(folder: Path) -> list[str]:
        arguments = ["--model", data["captioner"], "--input", data["listed"], "--images", SCENES]
        arguments += ["--method", "sample", "--batch-size", "8", "--output", folder / "captions.jsonl"]
        return ["caption", *map(str, arguments)]

    def again(folder: Path) -> list[str]:
        return [*command(folder), "--resume"]

    return Case("caption", command, again, ["captions.jsonl"], finished=_captioned)


def _captioned(folder: Path) -> set[str]:
    """Return the images in whole lines of a part file, or of an output."""
    part, output = folder / "captions.jsonl.part", folder / "captions.jsonl"
    if output.exists():
        return {json.loads(line)["image"] for line in output.read_text("utf-8").splitlines()}
    lines = part.read_bytes().split(b"\n")[1:-1] if part.exists() else []
    return {image for line in lines for image, *_ in json.loads(line)["images"]}


def _training(data: dict[str, Path]) -> list[Case]:
    results = ["model/model.safetensors", "model/config.json", "model/idf.json", "test_scores.jsonl"]
    results += ["test.jsonl", "splits.json", "report.json"]
    folds = [f"fold-{fold}/{name}" for fold in range(2) for name in results]
    return [
        _trained(data, "train", results),
        _trained(data, "train, 2 folds", [*folds, "report.json", "test_scores.jsonl"], "--data.folds=2"),
        _ablated(data),
    ]


def _trained(data: dict[str, Path], name: str, outputs: Sequence[str], *more: str) -> Case:
    def command(folder: Path) -> list[str]:
        return ["train", "--config", str(data["config"]), f"--output={folder / 'run'}", *more]

    def again(folder: Path) -> list[str]:
        started = (folder / "run" / "config.yaml").exists()
        return [*command(folder), *(["--ckpt_path=last"] if started else [])]

    return Case(name, command, again, [f"run/{path}" for path in outputs], plain=_plain)


def _ablated(data: dict[str, Path]) -> Case:
    def command(folder: Path) -> list[str]:
        options = ["--seeds", "1", "--variants", "no-image", "--bootstrap", "20", "--trainer.max_epochs=1"]
        return ["ablate", "--config", str(data["config"]), "--output", str(folder / "runs"), *options]

    outputs = ["runs/report.json", "runs/no-image/seed-1/model/model.safetensors"]
    return Case("ablate", command, command, outputs, forked=False, weight=0.3, plain=_plain)


def _plain(path: Path) -> Any:
    """Return what is compared of a file: all of it, or JSON without times and paths."""
    if path.suffix != ".json" or path.name == "config.json":
        return path.read_bytes()
    return _lasting(json.loads(path.read_text("utf-8")), str(path.parent))


def _lasting(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(part, folder) for key, part in value.items() if not key.startswith(VOLATILE)}
    if isinstance(value, list):
        return [_lasting(part, folder) for part in value]
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value
