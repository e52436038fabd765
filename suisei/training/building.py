"""How a training makes its regressor: encoders, vocabulary, idf, and pre-training where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.encoders.image import ImageEncoder
from suisei.encoders.text import TextEncoder
from suisei.models.config import RegressorConfig
from suisei.models.regressor import Regressor
from suisei.training.cross_fitting import PartEncoder, part_encoders
from suisei.training.image_pretraining import pretrain_images
from suisei.training.pass_states import StatesOf, no_states
from suisei.training.pretraining import PretrainingConfig, pretrain
from suisei.training.pretraining_loop import Progress
from suisei.training.support import CaptionCorpus, Support
from suisei.training.text_idf import idf_weights, text_and_idf


def build_regressor(
    config: RegressorConfig,
    pretraining: PretrainingConfig | None,
    training: Sequence[CaptionSample],
    support: Support,
    *,
    rated: Sequence[CaptionSample],
    seed: int,
    progress: Progress,
    states: StatesOf = no_states,
) -> tuple[Regressor, list[PartEncoder]]:
    """Return a regressor before its first step, and the text encoders of cross-fitting, if there are any.

    Args:
        config: which encoders, and what follows them.
        pretraining: how encoders are taught on captions and images; None for not at all.
        training: the training samples, which the vocabulary comes from, with the support's captions.
        support: captions and rated pairs that help beside them.
        rated: those of the training samples that people rated, which idf and the ranks of ratings come from.
        seed: decides what pre-training draws.
        progress: reports long work.
        states: keeps the state of every pre-training, and gives it to go on from.
    """
    text, idf = text_and_idf(config.text, training, support, rated)
    pictures = pretraining is not None and pretraining.image_epochs > 0
    image = None if config.image is None else ImageEncoder.create(config.image, trained_first=pictures)
    if pretraining is None:
        return _regressor(config, text, image, idf, rated), []
    corpus, parts = CaptionCorpus.of(training, support), list[PartEncoder]()
    if pretraining.epochs:
        weights = idf_weights(text, idf)
        times = 1 + pretraining.cross_fit
        advance = progress("pre-training on captions", times * pretraining.epochs)
        parts = part_encoders(
            text, weights, training, support, pretraining, seed=seed, advance=advance, states=states
        )
        pretrain(text, weights, corpus, pretraining, seed=seed, advance=advance, states=states("text"))
    regressor = _regressor(config, text, image, idf, rated)
    if pictures and image is not None:
        own = states("image")
        pretrain_images(regressor, corpus.images, pretraining, seed=seed, progress=progress, states=own)
    return regressor, parts


def taught_parts(pretraining: PretrainingConfig | None) -> tuple[str, ...]:
    """Return how the names of weights begin that pre-training changes.

    Another pre-training may differ in its last bits, so these weights stay in the checkpoints.
    """
    if pretraining is None:
        return ()
    epochs = {"regressor.text.": pretraining.epochs, "regressor.image.": pretraining.image_epochs}
    return tuple(name for name, own in epochs.items() if own)


def _regressor(
    config: RegressorConfig,
    text: TextEncoder,
    image: ImageEncoder | None,
    idf: IdfTable,
    rated: Sequence[CaptionSample],
) -> Regressor:
    regressor = Regressor(config, text, image, idf)
    if regressor.scale is not None:
        regressor.scale.fit(rated)
    return regressor
