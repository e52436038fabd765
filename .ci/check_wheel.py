"""Check an installed wheel from outside the checkout: what the package ships must be found in it."""

import sys
from pathlib import Path

import suisei
from suisei.commands.score import main
from suisei.data.load import load_data
from suisei.resources import resource_path

checkout = Path(sys.argv[1])
package = Path(suisei.__file__).parent
shipped = sorted((checkout / "configs").rglob("*.yaml")) + sorted((checkout / "data" / "scenes").rglob("*.*"))
problems = []
if package.is_relative_to(checkout):
    problems.append(f"suisei was imported from the checkout: {package}")
for path in shipped:
    found = resource_path(path.relative_to(checkout).as_posix())
    if not found.is_relative_to(package) or found.read_bytes() != path.read_bytes():
        problems.append(f"{path} is not what the wheel has at {found}")
if not load_data("scenes"):
    problems.append("the bundled sample is empty")
sample = str(resource_path("data/scenes/captions.jsonl"))
if main(["--metrics", "length", "--input", sample, "--output", "scores.jsonl"]):
    problems.append("suisei score failed")
sys.stdout.write("\n".join(problems or [f"{len(shipped)} shipped files found in the wheel"]) + "\n")
sys.exit(bool(problems))
