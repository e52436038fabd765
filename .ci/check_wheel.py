"""Check an installed wheel from outside the checkout, in an environment that has no extra of it.

What the package ships must be found in it, both languages must score with the model in it, and what
``suisei metrics`` says must be true.
"""

import contextlib
import io
import json
import sys
import warnings
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import suisei
from suisei.__main__ import main
from suisei.commands.metrics import list_rows
from suisei.data.load import load_data
from suisei.resources import resource_path

ROWS = [
    {"candidate": "a dog runs on grass", "references": ["a brown dog running", "dog on a lawn"]},
    {"candidate": "犬が草の上を走っている", "references": ["茶色い犬が走る", "芝生の犬"]},
]


def check_extras() -> list[str]:
    """Return which packages are here though no extra was asked for."""
    problems = []
    for line in requires("suisei") or []:
        name = line.split(";")[0].split("[")[0].split(">")[0].strip()
        if "extra ==" in line and name != "suisei":
            with contextlib.suppress(PackageNotFoundError):
                problems.append(f"{distribution(name).name} is installed, so this is no base install")
    return problems


def check_files(checkout: Path) -> list[str]:
    """Return which files of the checkout the wheel lacks."""
    shipped = [
        *sorted((checkout / "configs").rglob("*.yaml")),
        *sorted((checkout / "data" / "scenes").rglob("*.*")),
    ]
    package = Path(suisei.__file__).parent
    problems = []
    if package.is_relative_to(checkout):
        problems.append(f"suisei was imported from the checkout: {package}")
    for path in shipped:
        found = resource_path(path.relative_to(checkout).as_posix())
        if not found.is_relative_to(package) or found.read_bytes() != path.read_bytes():
            problems.append(f"{path} is not what the wheel has at {found}")
    if not load_data("scenes"):
        problems.append("the bundled sample is empty")
    for path in sorted((checkout / "suisei" / "small").rglob("*.*")):
        found = package / path.relative_to(checkout / "suisei")
        if not found.is_file() or found.read_bytes() != path.read_bytes():
            problems.append(f"{path} is not in the wheel")
    if not (package / "py.typed").is_file():
        problems.append("py.typed is not in the wheel, so type checkers ignore its types")
    return problems


def check_scores() -> list[str]:
    """Return what is wrong with scoring both languages by the default model."""
    source = Path("rows.jsonl")
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    problems = []
    if main(["score", "--input", str(source), "--output", "scores.jsonl"]):
        return ["suisei score failed"]
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = suisei.load().score(
        [row["candidate"] for row in ROWS], references=[row["references"] for row in ROWS]
    )
    for row, score in zip(rows, expected, strict=True):
        if not (0 < score < 1 and abs(row["suisei"] - score) < 1e-4):
            problems.append(f"suisei score gave {row}, suisei.load() {score}")
    if main(["probe", "--metrics", "suisei,bleu-4", "--limit", "20"]):
        problems.append("suisei probe failed")
    return problems


def check_metrics() -> list[str]:
    """Return which metrics do otherwise than ``suisei metrics`` says."""
    problems = []
    samples = [suisei.CaptionSample(row["candidate"], tuple(row["references"])) for row in ROWS]
    for row in list_rows():
        if row["available"] is None:
            continue  # it depends on what it is given
        try:
            metric = suisei.get_metric(row["name"])
            if metric.needs_fit:
                metric.fit(samples)
            metric.score(samples)
            works = True
        except suisei.SuiseiError:
            works = False
        if works != row["available"]:
            problems.append(f"{row['name']}: suisei metrics says {row['available']}, and it is {works}")
    return problems


def check(checkout: Path) -> list[str]:
    """Return everything that is wrong."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.filterwarnings("error", message="Japanese captions are compared by characters")
        return [*check_extras(), *check_files(checkout), *check_scores(), *check_metrics()]


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    sys.stdout.write("\n".join(found or ["the wheel is whole, and scores both languages"]) + "\n")
    sys.exit(bool(found))
