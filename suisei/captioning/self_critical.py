"""Self-critical sequence training: a captioner learns to write what a metric rewards (Rennie et al., 2017).

Shape letters: B images, K captions of an image, L tokens of a caption.
"""

# Annotations are not postponed here: jsonargparse cannot resolve those of a dataclass that is a torch module.
import copy
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.captioning.caption_log import CaptionLog
from suisei.captioning.caption_model import CaptionModel, Decoding, load_caption_model
from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.image_grids import ImageGrids
from suisei.captioning.policy import (
    BASELINES,
    advantages,
    divergence,
    policy_loss,
    teach_nothing,
    token_log_probs,
)
from suisei.captioning.rewards import CaptionReward, Rewards
from suisei.data.sample import LANGUAGES, CaptionSample, is_blank
from suisei.errors import DataError
from suisei.metrics.registry import get_metric
from suisei.progress import progress_bar
from suisei.ranges import (
    NAME,
    SHARE,
    Range,
    Rule,
    Several,
    Word,
    at_least,
    check_settings,
)
from suisei.training.losses import require_finite
from suisei.training.processes import token_weight, total
from suisei.training.step_training import STEPS, StepTraining

logger = logging.getLogger(__name__)

WEIGHT = Range(0, 1000)
RULES: dict[str, Rule] = {
    "captioner": NAME,
    "reward": NAME,
    "reward_options": Several(NAME, 0, 100, null=True),
    "lowest": Range(-1_000_000, 1_000_000, null=True),
    "baseline": Word(BASELINES),
    "captions": at_least(1, 1000),
    "max_length": at_least(1, 1000),
    "temperature": Range(0, 1000, above=True),
    "kl_weight": WEIGHT,
    "cross_entropy_weight": WEIGHT,
    "max_skipped": SHARE,
    "language": Word(LANGUAGES, null=True),
    "shown": at_least(0, 10_000),
    **{name: rule for name, rule in STEPS.items() if name != "cosine_steps"},  # the rate does not fall
}
WATCHED = ("repetition-4", "length")
"""What validation measures beside the reward, to show early what it costs."""
MOSTLY = 0.9
"""Share of images that the reward teaches nothing, from which on that is said."""


@dataclass(eq=False, repr=False)
class SelfCritical(StepTraining):
    """Tunes a captioner by a reward.

    The captioner writes captions of an image, which are rewarded; those that are worth more than the baseline
    become likelier, the others less likely. It writes and learns without dropout, so that what is rewarded is
    what is made likelier. What it learned before, and what its tower says if that is frozen, is the start.

    Args:
        captioner: folder of the captioner to start from, or a Hugging Face captioner by folder or name.
        reward: a metric or a weighted sum of some: cider, pac-s:DIR, 0.7*cider+0.3*pac-s:DIR.
        reward_options: of its metrics, NAME.KEY=VALUE, such as pac-s.precision=fp32; null for none.
        lowest: what a caption without a word gets of every metric; null for the least that the metric gives.
        baseline: beam-mean (the beams of a search against their mean reward), greedy (captions drawn at
            random against the greedy one) or sample-mean (captions drawn, against their mean).
        captions: captions of an image in a step: the width of the search, or how many are drawn.
        max_length: most tokens of a caption.
        temperature: of the draw, and of the probabilities that learn from it; no matter for beams.
        kl_weight: weight in the loss of the divergence from the start model.
        cross_entropy_weight: weight in the loss of a caption that people wrote, drawn anew every epoch.
        max_skipped: training stops where more than this share of a step's captions has no reward.
        language: of captioners that write several: en or ja; null for the one that it writes unasked.
        shown: validation images whose captions are kept as they change.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        warmup_steps: steps over which the rate grows from zero.
    """

    captioner: str = "runs/captioner/model"
    reward: str = "cider"
    reward_options: list[str] | None = None
    lowest: float | None = None
    baseline: str = "beam-mean"
    captions: int = 5
    max_length: int = 20
    temperature: float = 1.0
    kl_weight: float = 0.0
    cross_entropy_weight: float = 0.0
    max_skipped: float = 0.5
    language: str | None = None
    shown: int = 8
    learning_rate: float = 5e-6
    weight_decay: float = 0.0
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        check_settings("model", self, RULES)
        if self.baseline != "greedy" and self.captions < 2:
            raise DataError(
                f"model.captions is 1, and baseline {self.baseline} compares captions of an image with each "
                "other; set it to 2 or more, or model.baseline to greedy"
            )
        super().__init__()
        self.rewarder = CaptionReward(self.reward, options=self.reward_options or (), lowest=self.lowest)
        self.writer: CaptionModel = load_caption_model(self.captioner).eval()
        self.language = self.writer.language_or_own(self.language)
        self.writer.check_length(self.max_length, "model.max_length")
        self._start: tuple[CaptionModel, ...] = ()  # in a tuple: no part of what is trained or saved
        if self.kl_weight:
            self._start = (copy.deepcopy(self.writer).requires_grad_(False),)
        self.note_frozen()
        self._watched = [get_metric(name) for name in WATCHED]
        self._pairs: Sequence[CaptionedImage] = ()
        self._grids: Any = None
        self._seed = 0
        self._found: list[tuple[CaptionedImage, str]] = []
        self._alike, self._seen = 0, 0  # images that the reward taught nothing, and all, of all processes
        self._said = False
        self._step_began = 0.0
        self.seconds = {"step": 0.0, "reward": 0.0}

    def prepare(self, pairs: Sequence[CaptionedImage], grids: ImageGrids, seed: int) -> None:
        """Say what positions of batches point into.

        Args:
            pairs: the images with their captions.
            grids: what the tower says of them.
            seed: of what is drawn.
        """
        self._pairs, self._grids, self._seed = pairs, grids, seed

    def on_fit_start(self) -> None:
        """Put the start model beside the one that learns, and let the reward look at the images."""
        for start in self._start:
            start.to(self.device)
        ahead = self.rewarder.looked_at_ahead([pair.image for pair in self._pairs])
        shown = bool(ahead) and self.trainer.is_global_zero
        with progress_bar("looking at images for the reward", len(ahead), shown=shown) as advance:
            self.rewarder.look_at(ahead, advance, self.device)

    def training_step(self, positions: Tensor, batch_idx: int) -> Tensor:
        """Return the loss of a batch of images, int64 [B]."""
        self.writer.eval()  # Lightning sets it to training
        pairs = [self._pairs[position] for position in positions.tolist()]
        grid = self._grids[positions]
        generator, rng = self._random(batch_idx)
        tokens, texts = self._write(grid, generator)
        rewards = self._reward(texts, pairs)
        advantage, base = advantages(rewards.total, self.baseline)
        self._check_skipped(rewards)
        memory = self.writer.memory(grid)
        logits = self.writer.logits(memory, tokens, self.language)
        every, own = token_log_probs(logits, tokens, self.writer.pad_id, self.writer.end_id, self._drawn_at)
        counted = int((~np.isnan(advantage)).sum())
        loss = policy_loss(own, advantage, self.max_length) * token_weight(counted, self.device)
        parts = {"policy_loss": loss.detach()}
        if self.kl_weight:
            parts["kl"] = self._divergence(every, grid, tokens)
            loss = loss + self.kl_weight * parts["kl"]
        if self.cross_entropy_weight:
            parts["cross_entropy"] = self._cross_entropy(memory, pairs, rng)
            loss = loss + self.cross_entropy_weight * parts["cross_entropy"]
        require_finite(loss, self.writer, f"step {self.global_step + 1}", "model.learning_rate")
        self._log_step(loss, parts, rewards, advantage, base)
        return loss

    @property
    def _drawn_at(self) -> float:
        """The temperature of the distribution that captions come from."""
        return 1.0 if self.baseline == "beam-mean" else self.temperature

    def _random(self, batch_idx: int) -> tuple[torch.Generator, np.random.Generator]:
        """Return random numbers that the seed, the place in the training and the process alone decide."""
        place = (self._seed, self.current_epoch, batch_idx, self.global_rank)
        rng = np.random.default_rng(place)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        return generator, rng

    def _write(self, grid: Tensor, generator: torch.Generator) -> tuple[Tensor, list[list[str]]]:
        """Return captions as tokens [B, K, L] and texts; with a greedy baseline its text is the last."""
        with torch.no_grad():
            memory = self.writer.memory(grid)
            beams = self.baseline == "beam-mean"
            found = self.writer.generate(
                memory,
                Decoding(
                    "beam" if beams else "sample",
                    beams=self.captions,
                    samples=self.captions,
                    max_length=self.max_length,
                    temperature=self.temperature,
                ),
                generator,
                self.language,
            )
            texts = self.writer.texts(found.tokens)
            if self.baseline == "greedy":
                texts = [[*own, *more] for own, more in zip(texts, self._greedy(memory), strict=True)]
        return found.tokens, texts

    def _greedy(self, memory: Tensor) -> list[list[str]]:
        decoding = Decoding("greedy", max_length=self.max_length)
        return self.writer.texts(self.writer.generate(memory, decoding, None, self.language).tokens)

    def _reward(self, texts: Sequence[Sequence[str]], pairs: Sequence[CaptionedImage]) -> Rewards:
        began = time.perf_counter()
        rewards = self.rewarder(
            texts, [pair.image for pair in pairs], [pair.captions for pair in pairs], self.language
        )
        self.seconds["reward"] += time.perf_counter() - began
        return rewards

    def _check_skipped(self, rewards: Rewards) -> None:
        """Stop where too few captions have a reward; all processes stop together.

        Raises:
            DataError: too few have.
        """
        counts = torch.tensor([rewards.skipped, rewards.total.size], dtype=torch.float64, device=self.device)
        if self.trainer.world_size > 1:
            counts = self.all_gather(counts).sum(dim=0)
        skipped, of = (int(count) for count in counts.tolist())
        if skipped <= self.max_skipped * of and skipped < of:
            return
        reasons = "; ".join(f"{reason} ({count})" for reason, count in list(rewards.problems.items())[:3])
        raise DataError(
            f"step {self.global_step + 1}: {skipped} of {of} captions have no reward, and model.max_skipped "
            f"is {self.max_skipped:g}: {reasons or 'a metric returned no number'}; mend the data, or choose "
            "another reward"
        )

    def _divergence(self, every: Tensor, grid: Tensor, tokens: Tensor) -> Tensor:
        (start,) = self._start
        with torch.no_grad():
            logits = start.logits(start.memory(grid), tokens, self.language)
            there = logits.float().log_softmax(dim=-1)
        written = tokens != self.writer.pad_id
        return divergence(every, there, written) * token_weight(int(written.sum()), self.device)

    def _cross_entropy(
        self, memory: Tensor, pairs: Sequence[CaptionedImage], rng: np.random.Generator
    ) -> Tensor:
        """Return the mean negative log probability of the tokens of one caption of each image.

        Tokens that can never be written, such as that of unknown characters, are left out. Several processes
        count by their tokens.
        """
        captions = [pair.captions[int(rng.integers(len(pair.captions)))] for pair in pairs]
        tokens = self.writer.tokens_of(captions, self.max_length).to(self.device)[:, None]
        found = self.writer.log_probs(memory, tokens, self.language)
        possible = ~found.isneginf()
        counted = possible & (tokens != self.writer.pad_id)
        count = int(counted.sum())
        return -found.where(possible, 0.0).sum() / max(1, count) * token_weight(count, self.device)

    def _log_step(
        self,
        loss: Tensor,
        parts: dict[str, Tensor],
        rewards: Rewards,
        advantage: np.ndarray,
        base: np.ndarray,
    ) -> None:
        own = rewards.total[:, : self.captions]  # without the greedy one
        alike = teach_nothing(advantage)
        counts = total(torch.tensor([int(alike.sum()), len(alike)], device=self.device)).tolist()
        self._alike, self._seen = self._alike + counts[0], self._seen + counts[1]
        figures: dict[str, Any] = {
            "train_loss": loss.detach(),
            **parts,
            "reward": _mean(own),
            "reward_std": float(np.nanstd(own)) if not np.isnan(own).all() else math.nan,
            "baseline": _mean(base),
            "advantage_size": _mean(np.abs(advantage)),
            "no_difference": float(alike.mean()),
            "skipped": rewards.skipped / rewards.total.size,
            "empty": float(rewards.empty.mean()),
        }
        for label, values in rewards.parts.items():
            figures[f"reward/{label}"] = _mean(values[:, : self.captions])
        self.log_dict(figures, batch_size=len(own), sync_dist=self.trainer.world_size > 1)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Begin to count the step's seconds too."""
        super().on_train_batch_start(batch, batch_idx)
        self._step_began = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        """Count the step's seconds."""
        self.seconds["step"] += time.perf_counter() - self._step_began

    def validation_step(self, positions: Tensor, batch_idx: int) -> None:
        """Write the greedy captions of a batch of images."""
        self.writer.eval()
        texts = self._greedy(self.writer.memory(self._grids[positions]))
        pairs = [self._pairs[position] for position in positions.tolist()]
        self._found += [(pair, own[0]) for pair, own in zip(pairs, texts, strict=True)]

    def on_validation_epoch_end(self) -> None:
        """Log the reward of the captions and what it may cost, and keep some captions."""
        self._tell_of_no_difference()
        pairs, texts = [pair for pair, _ in self._found], [text for _, text in self._found]
        self._found = []
        began = self.seconds["reward"]
        rewards = self._reward([[text] for text in texts], pairs)
        self.seconds["reward"] = began  # no part of a training step
        figures = {"val_reward": _mean(rewards.total), "val_skipped": rewards.skipped / max(1, len(texts))}
        figures |= {f"val_reward/{label}": _mean(values) for label, values in rewards.parts.items()}
        figures["val_empty"] = float(rewards.empty.mean())
        figures |= self._measured(pairs, texts)
        self.log_dict(figures, prog_bar=False)
        if self.trainer.is_global_zero:
            samples = [
                {"image": pair.id, "caption": text, "reward": _plain(reward)}
                for pair, text, reward in zip(pairs, texts, rewards.total[:, 0], strict=True)
            ]
            curve = {name.removeprefix("val_"): _plain(value) for name, value in figures.items()}
            log = CaptionLog(Path(self.trainer.default_root_dir))
            log.write(self.global_step, curve, samples[: self.shown])

    def _tell_of_no_difference(self) -> None:
        """Say once that the reward tells hardly any image's captions apart, and teaches nothing of these."""
        alike, seen = self._alike, self._seen
        if self._said or alike < MOSTLY * max(1, seen):
            return
        self._said = True
        if self.trainer.is_global_zero:
            drawn = "" if self.baseline == "beam-mean" else "a higher model.temperature, "
            logger.warning(
                "of %.0f %% of the images so far (%d of %d) no caption is worth more or less than the "
                "baseline, and the reward teaches nothing of these: try another, %sor more model.captions "
                "(no_difference in the logs)",
                *(100 * alike / seen, alike, seen, drawn),
            )

    def _measured(self, pairs: Sequence[CaptionedImage], texts: Sequence[str]) -> dict[str, float]:
        """Return the watched metrics of the captions that are not empty."""
        samples = [
            CaptionSample(text, pair.captions, language=self.language)
            for pair, text in zip(pairs, texts, strict=True)
            if not is_blank(text)
        ]
        return {
            f"val_{metric.name}": metric.corpus_score(samples, metric.score(samples)) if samples else math.nan
            for metric in self._watched
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the seconds too, and how many images taught nothing."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["suisei_seconds"] = dict(self.seconds)
        checkpoint["suisei_no_difference"] = [self._alike, self._seen]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Read the seconds too, and how many images taught nothing."""
        super().on_load_checkpoint(checkpoint)
        self.seconds = dict(checkpoint["suisei_seconds"])
        self._alike, self._seen = checkpoint.get("suisei_no_difference", (0, 0))


def _mean(values: np.ndarray) -> float:
    """Return the mean of the values that there are, NaN where there is none."""
    return float(np.nanmean(values)) if values.size and not np.isnan(values).all() else math.nan


def _plain(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None
