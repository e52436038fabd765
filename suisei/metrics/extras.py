"""Extra inputs of the regressor: the scores of other metrics, by registry name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.encoders.rules import BUILD_ERRORS, check_folder
from suisei.errors import ConfigError, ModelError, SuiseiError, one_line
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, get_entry, get_metric
from suisei.metrics.ridge import Ridge
from suisei.metrics.tokenizers import signature_now, tokenizer_of
from suisei.models.extras_folder import ENCODER_FOLDER, SavedInput, is_encoder_place
from suisei.models.inputs import InputColumns
from suisei.ranges import SWITCH, Range, Rule, Suits, shown

_OPTIONS: dict[str, Rule] = {
    "tokenizer": Suits(
        "a tokenizer of suisei",
        lambda value: value in ("whitespace", "ptb", "ptb-java", "mecab", "character") or _is_pair(value),
    ),
    "w": Range(1e-6, 1e6),
    "prompt": Suits(
        "a text of up to 200 characters", lambda value: isinstance(value, str) and len(value) <= 200
    ),
    "clip_reference": SWITCH,
}
"""How a metric was made, as a model folder says it."""


def _is_pair(value: Any) -> bool:
    return value in ("ptb+mecab", "ptb+character", "ptb-java+mecab", "ptb-java+character")


class ExtraInputs:
    """Metrics whose scores the regressor reads beside the encoders' features.

    Metrics that this package computes by itself, CLIP-S and PAC-S, whose dual encoder is then kept with the
    model, and "ridge", which is trained on the ratings. Corpus statistics and the ridge are fitted on the
    training samples and saved with the model, so that a score never depends on what else is being scored.

    Args:
        names: names of the metrics, in the order of the regressor's inputs.
        saved: what :meth:`state` returned, or a model folder holds, for a trained model.

    Raises:
        ConfigError: for a new model, a metric that cannot be an extra input.
        ModelError: for a trained one, a metric that may not be, or that scores otherwise than in training.
    """

    def __init__(self, names: Sequence[str], saved: Mapping[str, SavedInput] | None = None) -> None:
        from suisei.encoders.sharing import shared_encoders

        self.metrics: dict[str, Metric] = {}
        saved = None if saved is None else _completed(saved)
        with shared_encoders(within=True):
            for name in names:
                if name in self.metrics:
                    raise ConfigError(f"fusion.extra_inputs names {name!r} twice")
                self.metrics[name] = _new(name) if saved is None else _restored(name, saved)

    def needs(self) -> dict[str, frozenset[str]]:
        """Return, by name, which of "references" and "image" each metric needs."""
        return {name: metric.needs for name, metric in self.metrics.items()}

    def learners(self) -> list[str]:
        """Return the names of those that are yet to be fitted on references, and cannot be without any."""
        return [n for n, metric in self.metrics.items() if metric.needs_fit and "references" in metric.needs]

    def fit(
        self,
        training: Sequence[CaptionSample],
        support: Sequence[CaptionSample] = (),
        rated: Sequence[CaptionSample] | None = None,
    ) -> None:
        """Fit the ridge on the training samples, and corpus statistics such as idf on those people rated.

        Args:
            training: samples with ratings.
            support: rated samples from elsewhere, which the ridge learns from too.
            rated: those of the training samples that people rated; None for all.
        """
        for metric in self.metrics.values():
            if isinstance(metric, Ridge):
                metric.support = support
                metric.fit(training)
            else:
                metric.fit(training if rated is None else rated)

    def compute(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return raw scores, float32 [N, E]; NaN where a sample lacks what a metric needs."""
        from suisei.encoders.sharing import shared_encoders

        with shared_encoders(within=True):
            scores = {name: metric.score(samples) for name, metric in self.metrics.items()}
        return InputColumns(tuple(scores)).scores(scores, len(samples))

    def fit_compute(
        self,
        samples: Sequence[CaptionSample],
        training: Sequence[int],
        support: Sequence[CaptionSample] = (),
        rated: Sequence[int] | None = None,
    ) -> np.ndarray:
        """Fit on the training samples and return the inputs of all samples, float32 [N, E].

        What is trained on ratings scores the training samples out of fold: the regressor must see it
        err as much as it will on new samples.

        Args:
            samples: training samples and others.
            training: positions of the training samples.
            support: rated samples from elsewhere.
            rated: positions of those training samples that people rated; None for all.
        """
        trained = [samples[position] for position in training]
        self.fit(trained, support, None if rated is None else [samples[position] for position in rated])
        inputs = self.compute(samples)
        for column, metric in enumerate(self.metrics.values()):
            if isinstance(metric, Ridge):
                inputs[list(training), column] = metric.out_of_fold(trained)
        return inputs

    def state(self) -> dict[str, SavedInput]:
        """Return, by name, what a model must hold to compute the same scores again."""
        return {name: _saved(metric) for name, metric in self.metrics.items()}


def _new(name: str) -> Metric:
    """Make an extra input of a model to be trained, if a model folder can hold it."""
    if name == Ridge.name:
        return Ridge()
    get_entry(name.partition(":")[0])  # refuses what is no metric at all
    kind = _extra_input(name.partition(":")[0])
    if not kind:
        raise ConfigError(
            f"fusion.extra_inputs: {name!r} cannot go into a model folder, where nothing runs a program or "
            f"another package, or asks a server; there are: {', '.join(_possible())}"
        )
    if kind == "folder" and name.rpartition(":")[2].startswith(f"{ENCODER_FOLDER}/"):
        raise ConfigError(
            f"fusion.extra_inputs: {name!r} is a place in a model folder; give the path of yours"
        )
    metric = get_metric(name)
    if kind == "folder":
        from suisei.encoders.dual_folder import check_savable

        try:
            check_savable(metric.encoder)  # type: ignore[attr-defined]
        except ConfigError as error:
            raise ConfigError(
                f"fusion.extra_inputs: {name!r} cannot go into a model folder: {error}"
            ) from None
    return metric


def _possible() -> list[str]:
    return [Ridge.name, *(name for name, entry in REGISTRY.items() if entry.extra_input)]


def check_names(names: Sequence[str]) -> None:
    """Refuse extra inputs that a model folder may not name.

    Raises:
        ModelError: a metric that runs or asks something, or an argument that leads out of the folder.
    """
    for name in names:
        if not _is_allowed(name):
            raise ModelError(
                f"extra input {shown(name)} is none that a model folder may name; there are: "
                f"{', '.join(_possible())}, those with an encoder as NAME:{ENCODER_FOLDER}/FOLDER"
            )


def _is_allowed(name: str) -> bool:
    kind, _, argument = name.partition(":")
    known = "alone" if kind == Ridge.name else _extra_input(kind)
    return (known == "alone" and name == kind) or (known == "folder" and is_encoder_place(argument))


def _extra_input(kind: str) -> str:
    """Return how a model may read a metric; "" for those of other packages, which no folder has imported."""
    return REGISTRY[kind].extra_input if kind in REGISTRY else ""


def _restored(name: str, saved: Mapping[str, SavedInput]) -> Metric:
    """Make an extra input of a trained model, with the scores of its training or not at all."""
    if name not in saved:
        raise ModelError(f"the model has nothing saved of its extra input {name!r}; train it again")
    given = saved[name]
    if given.encoder is None:
        check_names([name])
    try:
        metric = _made(name.partition(":")[0], given)
        metric.load_state(dict(given.state))
        if given.settings is not None and given.folder is None and given.encoder is None:
            _compare(metric.settings(), given)
    except SuiseiError as error:
        raise ModelError(f"extra input {name!r} of the model: {error}") from None
    except BUILD_ERRORS as error:
        raise ModelError(f"the saved state of extra input {name!r} is damaged ({one_line(error)})") from None
    return metric


def _made(kind: str, given: SavedInput) -> Metric:
    if kind == Ridge.name:
        return Ridge()
    options = check_folder(given.options, _OPTIONS, "options")
    if given.encoder is not None:
        return get_metric(kind, encoder=given.encoder, **options)
    if given.folder is None:
        return _with_tokenizer(kind, options)
    from suisei.encoders.dual_parts import check_dual_folder

    check_dual_folder(given.folder)
    return get_metric(kind, model=str(given.folder), **options)


def _with_tokenizer(kind: str, options: dict[str, Any]) -> Metric:
    """Make a metric, with the tokenizer that its options name where it has one."""
    metric, wanted = get_metric(kind), options.get("tokenizer")
    own = getattr(metric, "tokenizer", None)
    if wanted is None or own is None or own.name == wanted:
        return metric
    return get_metric(kind, **options)


def _decisive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what of a metric's settings decides its scores of samples.

    That is neither the version of a library that keeps them, nor how it scores a corpus, nor a tokenizer's
    version that differs in what hardly any caption has.
    """
    left_out = r",?version=[^,]*|-sentence/[^,]*-corpus"
    kept = {key: re.sub(left_out, "", str(value)) for key, value in settings.items()}
    return {key: signature_now(value) if key == "tok" else value for key, value in kept.items()}


def _compare(here: Mapping[str, str], given: SavedInput) -> None:
    """Refuse to compute an extra input otherwise than in training: the regressor would be misled unseen."""
    ours, theirs = _decisive(here), _decisive(given.settings or {})
    differing = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if not differing:
        return
    told = "; ".join(f"{key} {theirs.get(key)}, here {ours.get(key)}" for key in differing)
    dictionary = re.search(r"mecab-unidic-lite-([0-9.]+[0-9])", " ".join(theirs.values()))
    packages = f"suisei=={given.version}" if given.version else "suisei"
    if dictionary and dictionary[0] not in " ".join(ours.values()):
        packages = f"fugashi unidic-lite=={dictionary[1]}"
    raise ModelError(f"it was computed with {told}, which gives other scores; pip install {packages}")


def _saved(metric: Metric) -> SavedInput:
    from suisei.metrics.clipscore import ContrastiveScore

    if isinstance(metric, ContrastiveScore):
        options = {"w": metric.w, "prompt": metric.prompt, "clip_reference": metric.clip_reference}
        return SavedInput(metric.state(), options, metric.settings(), metric.encoder)
    tokenizer = getattr(metric, "tokenizer", None)
    options = {} if tokenizer is None else {"tokenizer": tokenizer.name}
    return SavedInput(metric.state(), options, metric.settings())


def _completed(saved: Mapping[str, SavedInput]) -> Mapping[str, SavedInput]:
    """Return the inputs of a folder of before, which holds no more of them than their states, with options.

    CIDEr's state tells the tokenizer, which is then that of all of them.
    """
    if "cider" not in saved:
        return saved
    state = saved["cider"].state
    signature = state.get("tokenizer") if isinstance(state, Mapping) else None
    tokenizer = tokenizer_of(signature) if isinstance(signature, str) else None
    options = {} if tokenizer is None else {"tokenizer": tokenizer}
    return {
        name: given if given.settings is not None or given.options else replace(given, options=options)
        for name, given in saved.items()
    }
