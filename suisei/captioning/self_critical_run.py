"""Tuning of a captioner by a reward: ``suisei train --config configs/self_critical.yaml``.

A config with ``task: self-critical`` at its top is run by this module. An interrupted run goes on with
``--ckpt_path last``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback
from lightning.pytorch.cli import LightningArgumentParser

from suisei.captioning.caption_log import before, plot_curve
from suisei.captioning.caption_model import Decoding, load_caption_model
from suisei.captioning.caption_report import METRICS, START, TUNED, compare_captions, compared_by
from suisei.captioning.caption_sources import check_test_images
from suisei.captioning.caption_writing import captions_of, captions_of_grids
from suisei.captioning.image_grids import ImageGrids
from suisei.captioning.rewarded_images import RewardedImages
from suisei.captioning.rewards import folders_of
from suisei.captioning.self_critical import SelfCritical
from suisei.cli import counted, safe_console
from suisei.data.sample import is_blank
from suisei.data.writers import write_samples
from suisei.errors import ConfigError
from suisei.metaeval.terminal import FittedTable
from suisei.progress import progress_bar
from suisei.ranges import NAME, Several, check
from suisei.training.data_digest import model_digest
from suisei.training.devices import moved
from suisei.training.run_callbacks import best_checkpoint, states_to_go_on_with
from suisei.training.run_facts import task_facts, trainable_parameters
from suisei.training.run_folder import staged, tell_of_run
from suisei.training.task_cli import TASK_DEFAULTS, TaskCLI
from suisei.training.task_run import check_data, checkpoint_of, train

TASK = "self-critical"
SHORT = {"--model": "--model.captioner", "--reward": "--model.reward"}
"""What people write, and the setting that it is."""
TRAINER_DEFAULTS = {
    **TASK_DEFAULTS,
    "max_epochs": 1,
    "val_check_interval": 50,
    "check_val_every_n_epoch": None,
    "num_sanity_val_steps": -1,
    "gradient_clip_val": 1.0,
    "precision": "32-true",
}


class SelfCriticalCLI(TaskCLI):
    """The command line: model, data, trainer, and the run's folder."""

    task = TASK
    place = "runs/self-critical"
    checkpoint_steps = 25

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add what the report measures."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--report_metrics",
            type=list[str],
            default=list(METRICS),
            help="what start and tuned model are compared by, beside the reward's metrics",
        )

    def check_run(self) -> None:
        """Check what the report measures too, and that there is a captioner to start from."""
        super().check_run()
        captioner = self.config.model.captioner
        if captioner == SelfCritical.captioner and not Path(captioner).is_dir():
            raise ConfigError(
                f"--model: no captioner in {captioner}, where `suisei train --config captioner` has its own; "
                "give the folder of one, or a captioner of Hugging Face by folder or name"
            )
        check("report_metrics", self.config.report_metrics, Several(NAME, 0, 100))
        compared_by(self.config.model.reward, self.config.report_metrics)

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the model and the reward too."""
        model = self.config.model
        named = {"model.captioner": [model.captioner], "model.reward": folders_of(model.reward)}
        return {**super().inputs(), **named}

    def callbacks(self) -> Sequence[Callback]:
        """Return what keeps checkpoints."""
        states = states_to_go_on_with(self.folder, self.config.checkpoint_steps)
        return [best_checkpoint(self.folder, "val_reward"), *states]


def written_out(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the settings that ``--model`` and ``--reward`` are short for.

    >>> written_out(["--model", "DIR", "--reward=cider"])
    ['--model.captioner', 'DIR', '--model.reward=cider']
    """
    found = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        found.append(f"{SHORT.get(name, name)}{equals}{value}")
    return found


def run(arguments: Sequence[str]) -> int:
    """Tune, write the model folder and the reports; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data, or too few captions with a reward.
    """
    cli = SelfCriticalCLI(
        SelfCritical,
        RewardedImages,
        written_out(arguments),
        trainer_defaults=TRAINER_DEFAULTS,
        about=__doc__ or "",
    )
    with cli.alone():
        _train(cli)
    return 0


def _train(cli: SelfCriticalCLI) -> None:
    folder, model, data = cli.folder, cli.model, cli.datamodule
    checkpoint = checkpoint_of(cli)
    seed = cli.config.seed_everything
    data.load(seed, model.language, processes=cli.trainer.world_size, told=cli.trainer.is_global_zero)
    data.digests["reward"] = model_digest(folders_of(model.reward))
    check_data(cli, checkpoint)
    model.rewarder.fit(data.documents, model.language)
    check_test_images(data.test_part, str(data.sources["test"]))
    device = cli.trainer.strategy.root_device
    with moved(model.writer, device), progress_bar("looking at images", len(data.pairs)) as advance:
        grids = ImageGrids(model.writer, [pair.image for pair in data.pairs], folder, advance)
    model.prepare(data.pairs, grids, seed)
    minutes = train(cli, checkpoint)
    if not cli.trainer.is_global_zero:
        return
    said = facts(cli, minutes)
    with staged(folder) as stage:
        model.writer.save(stage / "model")
        _report(cli, folder, stage, said)
    tell_of_run(folder, said["kept"])


def facts(cli: Any, minutes: float) -> dict[str, Any]:
    """Return what ``report.json`` says of the training itself."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    seconds = model.seconds
    best = trainer.checkpoint_callback.best_model_score
    return {
        "sources": data.sources,
        "images": {part: len(rows) for part, rows in data.parts.items()},
        **data.skipped_facts,
        "start": model.captioner,
        "reward": model.reward,
        "reward_signatures": model.rewarder.signatures,
        "baseline": model.baseline,
        **task_facts(cli, minutes),
        "precision": str(trainer.precision),
        "processes": trainer.world_size,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "reward_share_of_step": round(seconds["reward"] / seconds["step"], 4) if seconds["step"] else None,
        "trainable_parameters": trainable_parameters(model),
        "val_reward": float(best) if best is not None else None,
    }


def _report(cli: Any, folder: Path, stage: Path, said: dict[str, Any]) -> None:
    """Write the comparison of start and tuned model, the curve, and what is said of the training."""
    model, pairs = cli.model, cli.datamodule.test_part
    content: dict[str, Any] = {"training": said, "curve": before(folder / "curve.jsonl")}
    text = f"# {folder.name}\n\n{_described(said)}\n\n"
    if plot_curve(stage / "curve.png", folder, f"rewarded by {model.reward}"):
        text += "![the curve](curve.png)\n\n"
    if pairs:
        with moved(model.writer, cli.trainer.strategy.root_device):
            texts = _captions(model, pairs, folder)
        found = compare_captions(
            texts,
            pairs,
            compared_by(model.reward, cli.config.report_metrics),
            language=model.language,
            options=model.reward_options or (),
        )
        for system, samples in found.samples.items():
            spoken = [own for own, text in zip(samples, texts[system], strict=True) if not is_blank(text)]
            if spoken:
                write_samples(stage / f"captions_{system}.jsonl", spoken)
        content["comparison"] = found.as_dict()
        text += found.to_markdown([outcome.label for outcome in found.outcomes][: len(model.rewarder.terms)])
        for table in found.tables().values():
            safe_console().print(FittedTable(table))
    (stage / "report.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    (stage / "report.json").write_text(
        json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _captions(model: SelfCritical, pairs: Sequence[Any], folder: Path) -> dict[str, list[str]]:
    """Return the captions of the start and of the tuned model, by a beam search of five."""
    images = [pair.image for pair in pairs]
    decoding = Decoding("beam", beams=5, max_length=model.max_length)
    device = model.writer.device
    shared = model.writer.tower_is_frozen
    with progress_bar("looking at test images", len(images), shown=shared) as advance:
        grids = ImageGrids(model.writer, images, folder, advance)
    texts = {}
    for system, writer in ((START, load_caption_model(model.captioner).to(device)), (TUNED, model.writer)):
        with progress_bar(f"captions of the {system} model", len(images)) as advance:
            if shared:
                found = captions_of_grids(writer, grids, decoding, language=model.language, advance=advance)
            else:
                found = captions_of(writer, images, decoding, language=model.language, advance=advance)
            texts[system] = [own[0] for own in found]
    return texts


def _described(said: Mapping[str, Any]) -> str:
    share = said["reward_share_of_step"]
    cost = "" if share is None else f"; the reward took {share:.0%} of the steps' time"
    skipped = f" ({counted(said['skipped_rows'], 'bad row')} left out)" if said["skipped_rows"] else ""
    kept = "" if said["kept"] is None else f" (kept: step {said['kept']:,})"
    several = f" by {said['processes']} processes" * (said["processes"] > 1)
    return (
        f"`{said['start']}` rewarded by `{said['reward']}` (baseline {said['baseline']}) on "
        f"{counted(said['images']['train'], 'image')}{skipped}: {counted(said['steps'], 'step')}{kept} in "
        f"{said['minutes']:g} minutes{several}{cost}."
    )
