"""RECAP on pairs of Flickr8k-Expert by the mean of three experts, and its control with noise.

python -m tests.benchmarks.recap_expert --root FLICKR8K --model DIFFUSION --captions 100 --json FILE

Every measure is taken of the same images, and again with noise in place of the photographs, as in the paper's
table, which `suisei evaluate --raters mean` shows beside it. Pairs are those of some captions, whose hashes
come first: a larger number holds a smaller one. Images are kept in --cache, so that a run that was stopped
goes on.

--tower names an open_clip model or folder for recap:clip. --imagenet FILE makes one of an image classifier's
weights (safetensors, as timm names them, of --architecture), for machines without CLIP: its features are
those before the last layer, and its words are random.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from suisei.commands import evaluate
from suisei.data.benchmarks.flickr8k import EXPERT, IMAGE_FOLDERS, TEXT_FOLDER, read_captions
from suisei.encoders.drawings import Drawings
from suisei.encoders.weights import read_weights

MEASURES = "ssim,ms-ssim,vif,gmsd,fsim"


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, and evaluate."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.recap_expert", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="Flickr8k: texts and images")
    parser.add_argument("--model", required=True, help="of diffusers: a name or a folder")
    parser.add_argument("--captions", type=int, default=100, help="captions, each in about six pairs")
    parser.add_argument("--steps", type=int, default=50, help="denoising steps")
    parser.add_argument("--guidance", type=float, default=7.5)
    parser.add_argument("--measures", default=MEASURES, help="of piq")
    parser.add_argument("--size", type=int, default=176, help="pixels at which piq compares")
    parser.add_argument("--cache", type=Path, required=True, help="where images are kept")
    parser.add_argument("--tower", help="of recap:clip")
    parser.add_argument("--imagenet", type=Path, help="weights to make the tower of")
    parser.add_argument(
        "--architecture", default="tf_efficientnet_lite0", help="timm's name of these weights"
    )
    parser.add_argument("--metrics", default="", help="further metrics")
    parser.add_argument("--bootstrap", default="0")
    parser.add_argument("--draw-only", action="store_true", help="draw the images, and stop")
    parser.add_argument("--json", type=Path, help="of the tables")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="suisei-recap-") as folder:
        wanted = part_of_expert(options.root, Path(folder), options.captions)
        if options.draw_only:
            drawing = {"steps": options.steps, "guidance": options.guidance, "cache": options.cache}
            found = Drawings(options.model, **drawing).of(wanted, progress=True)
            return int(any(isinstance(files, str) for files in found.values()))
        if options.imagenet:
            options.tower = str(Path(folder) / options.architecture)
            classifier_as_tower(options.imagenet, options.architecture, Path(options.tower))
        return evaluate.main(_arguments(options, folder))


def part_of_expert(root: Path, folder: Path, count: int) -> list[str]:
    """Lay out the pairs of some captions as Flickr8k in a folder; returns the captions."""
    source = root / TEXT_FOLDER
    lines = (source / EXPERT).read_text(encoding="utf-8").splitlines()
    names = sorted(
        {line.split("\t")[1] for line in lines}, key=lambda name: hashlib.sha256(name.encode()).digest()
    )
    chosen = set(names[:count])
    (folder / TEXT_FOLDER).mkdir()
    for path in source.iterdir():
        if path.name != EXPERT:
            (folder / TEXT_FOLDER / path.name).symlink_to(path.resolve())
    kept = [line for line in lines if line.split("\t")[1] in chosen]
    (folder / TEXT_FOLDER / EXPERT).write_text("\n".join(kept) + "\n", encoding="utf-8")
    for name in IMAGE_FOLDERS:
        if (root / name).is_dir():
            (folder / name).symlink_to((root / name).resolve())
    captions = read_captions(root)
    return [captions[name.partition("#")[0]][int(name.partition("#")[2])] for name in names[:count]]


def classifier_as_tower(weights: Path, architecture: str, folder: Path) -> None:
    """Write a folder of open_clip whose image tower is a classifier without its last layer."""
    import timm
    from open_clip import CLIP
    from safetensors.torch import save_file

    trunk = timm.create_model(architecture, pretrained=False, num_classes=0)
    trunk.load_state_dict({k: v for k, v in read_weights(weights).items() if not k.startswith("classifier.")})
    width = trunk.num_features
    mean, std = trunk.default_cfg["mean"], trunk.default_cfg["std"]
    described = {
        "embed_dim": width,
        "vision_cfg": {
            "timm_model_name": architecture,
            "timm_model_pretrained": False,
            "timm_pool": "avg",
            "timm_proj": "linear",
            "image_size": 224,
        },
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
    }
    torch.manual_seed(0)
    model = CLIP(**described)
    model.visual.trunk.load_state_dict(trunk.state_dict())
    with torch.no_grad():
        model.visual.head.proj.weight.copy_(torch.eye(width))
    folder.mkdir()
    config = {"model_cfg": described, "preprocess_cfg": {"mean": list(mean), "std": list(std)}}
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors"
    )


def _arguments(options: argparse.Namespace, folder: str) -> list[str]:
    measures = options.measures.split(",") + (["clip"] if options.tower else [])
    specs = [f"{name}:{each}@{options.model}" for name in ("recap", "recap-noise") for each in measures]
    specs += [options.metrics] if options.metrics else []
    arguments = [
        "--data",
        "flickr8k-expert",
        "--root",
        folder,
        "--raters",
        "mean",
        "--metrics",
        ",".join(specs),
    ]
    arguments += ["--cache", str(options.cache), "--bootstrap", options.bootstrap, "--correlation", "tau-b"]
    settings = {"steps": options.steps, "guidance": options.guidance, "size": options.size}
    settings |= {"tower": options.tower} if options.tower else {}
    for name in ("recap", "recap-noise"):
        for key, value in settings.items():
            arguments += ["--metric-option", f"{name}.{key}={value}"]
    return arguments + (["--json", str(options.json)] if options.json else [])


if __name__ == "__main__":
    raise SystemExit(main())
