"""Writing captions of many images: batches, images decoded ahead, and none lost.

Shape letters: B images of a batch, K captions of each.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from suisei.captioning.caption_model import CaptionModel, Decoding
from suisei.captioning.image_grids import ImageGrids
from suisei.data.decodable import DECODING_THREADS
from suisei.data.item_seeds import item_seed
from suisei.encoders.precision import DTYPES, choose_precision, matrix_products, of_images
from suisei.encoders.precision_words import CAPTION_PRECISIONS
from suisei.errors import ConfigError, DataError

BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one image.

    Attributes:
        captions: K captions, the best first; "" of one that decoded to nothing; none of a broken image.
        log_probs: the log probability of each.
        problem: why the image could not be read, "" where it could.
    """

    captions: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()
    problem: str = ""


def write_captions(
    model: CaptionModel, images: Sequence[Any], decoding: Decoding, **how: Any
) -> Iterator[Written]:
    """Caption images in order; a broken one gives its problem and stops nothing.

    Arguments and errors are those of :func:`caption_batches`.
    """
    for _, written in caption_batches(model, images, decoding, **how):
        yield from written


def caption_batches(
    model: CaptionModel,
    images: Sequence[Any],
    decoding: Decoding,
    *,
    language: str | None = None,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    precision: str = "auto",
    done: Container[int] = (),
) -> Iterator[tuple[int, list[Written]]]:
    """Caption images batch by batch, and say which batch it is.

    Args:
        model: the captioner, on the device where it is to work.
        images: paths or PIL images.
        decoding: how captions are chosen.
        language: one that the captioner writes; its first where None.
        batch_size: images at a time. Greedy and beam captions do not depend on it, but for rounding.
        seed: of what is sampled, which depends on the order of the images and on ``batch_size`` as well, and
            not on what other batches drew.
        precision: one of ``CAPTION_PRECISIONS``; "auto" for what is fast here.
        done: numbers of batches, from 0, that are left out.

    Raises:
        ConfigError: a language that it does not write, or a precision that there is none of.
        ModelError: weights that give no numbers.
    """
    if precision not in CAPTION_PRECISIONS:
        raise ConfigError(
            f"precision is {precision!r}; captioners compute in {', '.join(CAPTION_PRECISIONS)}"
        )
    batches = range(0, len(images), batch_size)
    numbers = [number for number in range(len(batches)) if number not in done]
    with ThreadPoolExecutor(DECODING_THREADS) as pool:

        def reading(number: int) -> list[Future[Tensor | str]]:
            start = batches[number]
            return [pool.submit(_read, model, image) for image in images[start : start + batch_size]]

        ahead = reading(numbers[0]) if numbers else []
        for number, following in zip_longest(numbers, numbers[1:]):
            futures, ahead = ahead, [] if following is None else reading(following)
            pixels = [future.result() for future in futures]
            generator = torch.Generator(model.device).manual_seed(item_seed(seed, f"batch {number}"))
            with _computing(model, precision):  # and not while the caller has what is yielded
                found = list(_of_batch(model, pixels, decoding, generator, language))
            yield number, found


def captions_of(
    model: CaptionModel,
    images: Sequence[Any],
    decoding: Decoding,
    *,
    language: str | None = None,
    advance: Callable[[int], Any] = lambda _: None,
) -> list[tuple[str, ...]]:
    """Return the captions of images that can all be read, K of each.

    Raises:
        DataError: one cannot.
    """
    found = []
    for written in write_captions(model, images, decoding, language=language):
        if written.problem:
            raise DataError(written.problem)
        found.append(written.captions)
        advance(1)
    return found


def captions_of_grids(
    model: CaptionModel,
    grids: ImageGrids,
    decoding: Decoding,
    *,
    language: str | None = None,
    advance: Callable[[int], Any] = lambda _: None,
) -> list[tuple[str, ...]]:
    """Return K captions of each image whose grid is known; several models with one tower look at it once."""
    generator = torch.Generator(model.device).manual_seed(0)
    found: list[tuple[str, ...]] = []
    for rows in torch.arange(len(grids)).split(BATCH_SIZE):
        with torch.no_grad(), _computing(model, "auto"):
            made = model.generate(model.memory(grids[rows]), decoding, generator, language)
        found += [tuple(captions) for captions in model.texts(made.tokens)]
        advance(len(rows))
    return found


def chosen_precision(model: CaptionModel, precision: str) -> str:
    """Return what a captioner computes in, with "auto" replaced."""
    return of_images(choose_precision(precision, model.device.type))  # SUISEI_PRECISION may be int8


@contextmanager
def _computing(model: CaptionModel, precision: str) -> Iterator[None]:
    """Compute in a precision inside this block."""
    kind, chosen = model.device.type, chosen_precision(model, precision)
    dtype = DTYPES[chosen]
    low = dtype != torch.float32
    with matrix_products(chosen), torch.autocast(kind, dtype if low else torch.bfloat16, enabled=low):
        yield


def _read(model: CaptionModel, image: Any) -> Tensor | str:
    try:
        return model.read([image])[0]
    except DataError as error:
        return str(error)


def _of_batch(
    model: CaptionModel,
    pixels: Sequence[Tensor | str],
    decoding: Decoding,
    generator: torch.Generator,
    language: str | None,
) -> Iterator[Written]:
    shown = [image for image in pixels if isinstance(image, Tensor)]
    found: Iterator[tuple[list[str], list[float]]] = iter(())
    if shown:
        with torch.no_grad():
            memory = model.encode(torch.stack(shown).to(model.device))
            made = model.generate(memory, decoding, generator, language)
        sums = made.log_probs.sum(dim=-1).tolist()
        found = iter(zip(model.texts(made.tokens), sums, strict=True))
    for image in pixels:
        if isinstance(image, str):
            yield Written(problem=image)
        else:
            captions, log_probs = next(found)
            yield Written(tuple(captions), tuple(log_probs))
