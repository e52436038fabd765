"""Rewards for TRL's trainers: captions that people would rate higher are rewarded higher.

The data set needs a column ``image``, ``references``, or both, beside ``prompt``::

    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer
    from suisei.adapters.trl import suisei_reward

    data = load_dataset("json", data_files="prompts.jsonl", split="train")
    settings = GRPOConfig(output_dir="runs/grpo", num_generations=8, max_completion_length=40)
    GRPOTrainer("MODEL", reward_funcs=suisei_reward, args=settings, train_dataset=data).train()

``make_reward("suisei:DIR")`` makes a reward of a model of your own, or of any other metric. TRL shows the
columns ``image`` and ``images`` to the model that is trained, and so they are for vision-language models. For
a language model call the column otherwise: ``make_reward("suisei", image="picture")``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suisei.adapters.rows import made_once, make_row, metric_of, row_metric
from suisei.data.file_rows import warn
from suisei.data.sample import CaptionSample, checked_caption, is_wordless
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric

Reward = Callable[..., list[float | None]]


def make_reward(
    metric: Metric | str, *, batch_size: int = 64, image: str = "image", name: str | None = None
) -> Reward:
    """Return a reward function of any metric, with the name that TRL logs it under.

    Args:
        metric: a name such as "suisei:DIR" or "chrf", or a metric, fitted where it must be. One given by name
            is made when the first reward is asked for, in the process that asks. A distance is negated. A
            completion that is no caption (without a word, of over 10,000 characters, with half a surrogate
            pair) gets the negative of a distance's largest; of other metrics, where rewards are below 0, the
            least of those asked for together.
        batch_size: captions at once; changes no score.
        image: the column of the images, which TRL shows to the model that is trained where it is "image" (or
            "images", read in its place): a language model needs another.
        name: of the reward, an identifier that no other reward of the training has, since TRL keeps one log
            for both; None for the metric's with its model, such as "suisei_runs_a_reward" of "suisei:runs/a".

    Raises:
        ConfigError: ``metric`` is neither, or ``name`` is no identifier.
    """
    column, logged = image, _reward_name(metric, name)
    warned = False

    @made_once
    def scorer() -> Metric:
        return row_metric(metric, "a reward")

    def reward(
        completions: Sequence[Any],
        image: Sequence[Any] | None = None,
        references: Sequence[Any] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **kwargs: Any,
    ) -> list[float | None]:
        """Return the score of each completion, None where a row cannot be scored.

        The first row whose image or references are at fault is told as a warning, later ones are not.

        Args:
            completions: N texts, or N conversations whose last message is the caption.
            image: N images, None where missing; TRL's column ``images`` is taken too, and in place of both
                the column that ``make_reward`` was told.
            references: N lists of captions, or N captions, None where missing.
            log_metric: TRL's logger, which is told the share of rows that were scored.
            kwargs: what else TRL hands over, which decides nothing.

        Raises:
            DataError: there are no references and no images, a column has another length, or that of the
                images is not there.
        """
        rows = _rows(completions, references, column, _images(column, {**kwargs, "image": image}))
        outcomes = _outcomes(scorer(), rows, batch_size)
        nonlocal warned
        warned = warned or _warned_of_first(logged, outcomes)
        numbers = [None if isinstance(one, DataError) else one for one in outcomes]
        rewards = _no_caption_is_worst(scorer(), numbers, completions)
        if log_metric is not None and rewards:
            log_metric(f"{logged}/scored", sum(one is not None for one in rewards) / len(rewards))
        return rewards

    reward.__name__ = reward.__qualname__ = logged
    return reward


def _reward_name(metric: Metric | str, name: str | None) -> str:
    if name is not None:
        if not (isinstance(name, str) and name.isidentifier()):
            raise ConfigError(f"name must be an identifier such as 'my_reward', got {name!r:.60}")
        return name
    spec = metric if isinstance(metric, str) else metric_of(metric).name
    parts = "".join(letter if f"_{letter}".isidentifier() else " " for letter in spec).split()
    return "_".join([*parts, "reward"])


def _images(column: str, given: Mapping[str, Any]) -> Any:
    """Return the column of the images, None without one.

    Raises:
        DataError: it has a name of its own and is not there.
    """
    if column == "image":
        return given.get("images") if given["image"] is None else given["image"]
    if given.get(column) is None:
        raise DataError(f"the data set has no column {column!r}, which the reward reads images from")
    return given[column]


def _rows(
    completions: Sequence[Any], references: Any, column: str, images: Any
) -> list[CaptionSample | DataError | None]:
    if references is None and images is None:
        raise DataError(
            "a reward needs a column 'references' or 'image' (or 'images') in the data set; with neither, a "
            "caption would be rewarded for its wording alone"
        )
    for name, values in {"references": references, column: images}.items():
        if values is not None and len(values) != len(completions):
            raise DataError(f"{name} has {len(values)} rows, completions has {len(completions)}")
    blank = [None] * len(completions)
    return [
        _row(*fields)
        for fields in zip(completions, blank if references is None else references,
                          blank if images is None else images, strict=True)
    ]  # fmt: skip


def _row(completion: Any, references: Any, image: Any) -> CaptionSample | DataError | None:
    """Return a sample, or why it is none; None of what is no caption, or has nothing to compare."""
    if _no_caption(completion):
        return None
    try:
        row = make_row(caption_of(completion), references, image)
    except DataError as error:
        return error
    return row if row is not None and (row.references or row.image is not None) else None


def caption_of(completion: Any) -> str:
    """Return the text of a completion: itself, or of the last message of a conversation.

    Raises:
        DataError: it is neither.
    """
    if isinstance(completion, str):
        return completion
    last = completion[-1] if isinstance(completion, list | tuple) and completion else None
    content = last.get("content") if isinstance(last, dict) else None
    if isinstance(content, list):  # parts of a message, of which some may be images
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise DataError(f"a completion must be text or messages, got {completion!r:.80}")
    return content


def _outcomes(
    metric: Metric, rows: Sequence[CaptionSample | DataError | None], batch_size: int
) -> list[float | DataError | None]:
    """Return the reward of each row, why it was refused, or None where it lacks what the metric needs."""
    outcomes: list[float | DataError | None] = [
        None if isinstance(row, CaptionSample) else row for row in rows
    ]
    there = {position: row for position, row in enumerate(rows) if isinstance(row, CaptionSample)}
    scores, refused = metric.score_each(list(there.values()), batch_size=batch_size)
    sign = 1.0 if metric.higher_is_better else -1.0
    for number, (position, score) in enumerate(zip(there, scores.tolist(), strict=True)):
        outcomes[position] = refused.get(number, None if math.isnan(score) else sign * score)
    return outcomes


def _warned_of_first(name: str, outcomes: Sequence[float | DataError | None]) -> bool:
    """Warn of the first row that was refused, and return whether there is one."""
    for number, outcome in enumerate(outcomes, start=1):
        if isinstance(outcome, DataError):
            warn(
                f"{name}: row {number} of {len(outcomes)} asked for has no reward: {outcome}; later ones are "
                "left out without another warning"
            )
            return True
    return False


def _no_caption_is_worst(
    metric: Metric, rewards: list[float | None], completions: Sequence[Any]
) -> list[float | None]:
    """Give completions that are no captions the least reward that there is, where any is below 0.

    TRL takes None for 0, the best that a distance with its sign turned can be.
    """
    least = min((one for one in rewards if one is not None), default=0.0)
    if not metric.higher_is_better and metric.largest is not None:
        least = -metric.largest
    return [
        least if one is None and least < 0 and _no_caption(completion) else one
        for one, completion in zip(rewards, completions, strict=True)
    ]


def _no_caption(completion: Any) -> bool:
    """Return whether a text is no caption whatever stands beside it: no word, too long, half a character."""
    try:
        text = caption_of(completion)
    except DataError:
        return False
    try:
        checked_caption("the completion", text)
    except DataError:
        return True
    return is_wordless(text)


suisei_reward = make_reward("suisei")
"""The reward of the model in the package."""
