"""Tune a model of Hugging Face by what a metric says of its captions, with GRPO of TRL.

    pip install 'suisei' 'trl>=0.29'
    python docs/scripts/grpo_captions.py MODEL captions.jsonl --output runs/grpo --reward suisei

Each row of the file has ``references`` (a caption that people wrote, or a list of them), ``image`` (a file,
relative to the JSON lines), or both; ``prompt`` is what the model is asked, "Describe the image in one
sentence." where absent. A vision-language model sees the image; a language model is rewarded by image and
references all the same (in a column ``picture``, since TRL shows the column ``image`` to the model).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suisei.adapters.rows import fitted, metric_of
from suisei.adapters.trl import make_reward
from suisei.data.given_columns import listed_references
from suisei.data.images import load_image
from suisei.data.outputs import write_texts
from suisei.data.sample import CaptionSample, check_captions
from suisei.errors import DataError
from suisei.metrics.base import Metric

PROMPT = "Describe the image in one sentence."


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train, write the model and ``rewards.json``; returns the mean reward of every logged step."""
    options = _parser().parse_args(argv)
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    sees = _sees_images(options.model)
    rows = read_rows(Path(options.data), with_pictures=sees)
    metric = reward_metric(options.reward, rows)
    settings = GRPOConfig(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        num_generations=options.generations,
        max_completion_length=options.max_length,
        learning_rate=options.learning_rate,
        beta=options.kl,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        seed=options.seed,
        use_cpu=options.cpu,
        disable_tqdm=not sys.stderr.isatty(),
    )
    reward = make_reward(metric, image="image" if sees else "picture")
    trainer = GRPOTrainer(options.model, reward, settings, train_dataset=Dataset.from_list(rows))
    trainer.train()
    trainer.save_model(options.output)
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    problems = write_texts([(Path(options.output) / "rewards.json", json.dumps(rewards) + "\n")])
    if problems:
        raise problems[0]
    return rewards


def read_rows(path: Path, *, with_pictures: bool) -> list[dict[str, Any]]:
    """Return the rows as TRL takes them.

    Args:
        path: JSON lines.
        with_pictures: whether the model sees the images: prompts are conversations then, and the column is
            ``image``, of images; else it is ``picture``, of their files or None.

    Raises:
        DataError: a row that is no object, has neither references nor an image, or one that cannot be used.
    """
    rows: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8-sig").split("\n")  # a caption may hold other ends of lines
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(_read_row(line, path.parent, with_pictures=with_pictures))
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from None
    return rows


def reward_metric(name: str, rows: Sequence[dict[str, Any]]) -> Metric:
    """Return the metric that rewards; one with corpus statistics, as CIDEr, counts the rows' references.

    Args:
        name: of the metric.
        rows: what :func:`read_rows` returned; those without references count nothing.

    Raises:
        ConfigError: an unknown metric.
        DataError: there is nothing to count.
    """
    given = [row["references"] for row in rows if row["references"]]
    return fitted(metric_of(name), [CaptionSample(own[0], own) for own in given])


def _read_row(line: str, folder: Path, *, with_pictures: bool) -> dict[str, Any]:
    """Return one row; all have the same columns, as a data set takes them from its first row."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"not JSON: {error}") from None
    if not isinstance(row, dict) or not (row.get("references") or row.get("image")):
        raise DataError("needs `references`, `image`, or both")
    prompt = row.get("prompt") or PROMPT
    references = _references(row.get("references") or [])
    image = _image_file(row["image"], folder) if row.get("image") else None
    if not with_pictures:
        return {"prompt": prompt, "references": references, "picture": str(image) if image else None}
    if image is None:
        raise DataError("a vision-language model needs an `image`")
    talk = [{"role": "user", "content": prompt}]
    return {"prompt": talk, "references": references, "image": load_image(image)}


def _references(given: Any) -> list[str]:
    references = [given] if isinstance(given, str) else list(listed_references(given))
    check_captions("reference", references)
    return references


def _image_file(name: Any, folder: Path) -> Path:
    if not isinstance(name, str):
        raise DataError(f"`image` must be the name of a file, got {type(name).__name__} {name!r:.60}")
    file = folder / name
    if not os.path.isfile(file):  # noqa: PTH113 - whatever its name
        raise DataError(f"`image` {name!r:.200} is not there: no file {str(file)[:400]}; fix the name")
    return file


def _sees_images(model: str) -> bool:
    from transformers import AutoConfig

    return getattr(AutoConfig.from_pretrained(model), "vision_config", None) is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a model of Hugging Face, by name or folder")
    parser.add_argument("data", help="JSON lines with references, image, or both")
    parser.add_argument("--output", default="runs/grpo", help="folder of the tuned model")
    parser.add_argument(
        "--reward", default="suisei", help="a metric: suisei, suisei:DIR, pac-s:DIR, cider, ..."
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16, help="completions per step and device")
    parser.add_argument("--generations", type=int, default=8, help="completions per prompt")
    parser.add_argument("--max-length", type=int, default=40, help="most tokens of a completion")
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument("--kl", type=float, default=0.02, help="weight of the divergence from the start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    return parser


if __name__ == "__main__":
    main()
