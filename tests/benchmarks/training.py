"""How fast training is: all weights of the text encoder beside COMET's way, and from cached features."""

from __future__ import annotations

import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, Trainer

from suisei.data.sample import CaptionSample, Rating
from suisei.data.splits import Split
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.layers import light
from suisei.encoders.precision import choose_precision
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.models.config import FusionConfig, HeadConfig
from suisei.models.regressor import Regressor
from suisei.models.table import Collator, SampleTable
from suisei.training.datamodule import CaptionDataModule
from suisei.training.feature_table import FeatureTable
from suisei.training.module import SuiSei
from suisei.training.optimizers import OptimizerConfig
from tests.benchmarks import inputs, plain
from tests.benchmarks.harness import Options, Row, alternate, compared, seconds, settle, spread
from tests.benchmarks.peers import Peer

SECTION = "training"
BATCH = 16
"""Samples per step; COMET takes 6 GB of memory for 32."""
FROZEN_BATCH = 1024
PAPER_SAMPLES, PAPER_EPOCHS = 52_000, 9
PAPER_BATCHES = ((32, 4), (128, 1))
"""What the paper trained on; a step's batch in four parts as there, and at once, which is the same step."""
REFERENCES, WIDTH, IMAGES = 5, 384, 1000


def run(options: Options) -> Iterator[Row]:
    """Measure them."""
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    yield from _frozen(options)
    yield from _fine_tuning(options)
    yield _embeddings(options)
    for batch, parts in PAPER_BATCHES:
        yield _paper(options, batch, parts)


def _precision(options: Options) -> str:
    return "bf16-mixed" if choose_precision("auto", options.device) == "bf16" else "32-true"


def _trainer(epochs: int, options: Options, callbacks: Sequence[Callback] = (), parts: int = 1) -> Trainer:
    return Trainer(
        max_epochs=epochs,
        accelerator="gpu" if options.device == "cuda" else "cpu",
        devices=1,
        precision=_precision(options),
        accumulate_grad_batches=parts,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=list(callbacks),
    )


# -- full fine-tuning -----------------------------------------------------------------------------


def _fine_tuning(options: Options) -> list[Row]:
    """Compare on rows from all over the data; batches of whole images need rows that lie together."""
    everything = inputs.samples(options.root, 10**9)
    rows = {
        "shuffled": inputs.with_references(spread(everything, options.train_samples), 2, image=False),
        "group": inputs.with_references(everything[: options.train_samples], 2, image=False),
    }
    model = _fine_tuned(options)
    ours = {batching: _epoch(model, own, batching, options) for batching, own in rows.items()}
    shuffled = rows["shuffled"]
    slow = plain.PlainRegressor(options)
    sides = [("plain loop", lambda: seconds(lambda: plain.train(slow, shuffled, BATCH)))]
    if options.comet_python is None:
        return _compare(options, ours, sides, len(shuffled))
    with Peer(options, shuffled[:2], shuffled, BATCH) as comet:
        name = f"unbabel-comet {comet.about['version']}"
        theirs = [(name, lambda: comet.run("train"))]
        if _precision(options) == "bf16-mixed":
            theirs.append((f"{name} in bf16-mixed", lambda: comet.run("train in bf16")))
        return _compare(options, ours, [*theirs, *sides], len(shuffled))


def _compare(options: Options, ours: dict[str, Callable[[], float]], sides: list, count: int) -> list[Row]:
    every = [*ours.values(), *(side for _, side in sides)]
    if options.device == "cuda":
        alternate(every, 1)  # what a GPU computes first is built first
    times = alternate(every, options.repeats)
    found = []
    for number, batching in enumerate(ours):
        for (name, _), theirs in zip(sides, times[len(ours) :], strict=True):
            note = f"batches of {BATCH}, ours {_precision(options)}, all embeddings frozen; {count} samples"
            what = f"full fine-tuning, {batching} batches"
            found.append(compared(SECTION, what, (times[number], theirs), (count, count), name, note=note))
    return found


def _embeddings(options: Options) -> Row:
    """Compare training all weights, word vectors too, with and without those that no caption has."""
    everything = inputs.samples(options.root, 10**9)
    rows = inputs.with_references(spread(everything, options.train_samples), 2, image=False)
    sides = []
    for all_words in (False, True):
        model = _fine_tuned(options, layers=None)
        sides.append(_epoch(model, rows, "shuffled", options, all_words=all_words))
    used, whole = alternate(sides, options.repeats)
    note = f"batches of {BATCH}, {_precision(options)}; {len(rows)} samples"
    what = "full fine-tuning, embeddings too"
    return compared(SECTION, what, (used, whole), (len(rows),) * 2, "all word vectors held", note=note)


def _paper(options: Options, batch: int, parts: int) -> Row:
    """Measure the paper's training, on two references and the image, and say what its length would take."""
    everything = inputs.samples(options.root, 10**9)
    rows = inputs.with_references(spread(everything, options.train_samples), 2, image=True)
    model = SuiSei(
        text=TextEncoderConfig(name="random"),
        image=ImageEncoderConfig(name="random", frozen=True),
        fusion=FusionConfig(poolings=["idf", "mean"], references="concat"),
        head=HeadConfig(hidden=inputs.HIDDEN[options.size]),
        optimizer=OptimizerConfig(name="adam", frozen_fraction=0.0),
        image_dropout=0.0,
    )
    regressor = inputs.regressor(options, image=True, references="concat")
    regressor.text.backbone = light(regressor.text.backbone)
    regressor.text.set_trainable(True)
    model.regressor = regressor
    collates: list[Collator] = []
    table = SampleTable(rows, with_images=True)
    ahead = seconds(
        lambda: collates.append(
            model.prepare(table, range(len(rows)), lambda *_: lambda _: None, options.device)
        )
    )
    clock = _Clock()
    data = _data(rows, collates[0], len(rows), batch, "shuffled")
    _trainer(3, options, [clock], parts).fit(model, datamodule=data)
    rate = len(rows) / statistics.median(clock.seconds[1:])
    minutes = PAPER_SAMPLES * (PAPER_EPOCHS / rate + ahead / len(rows)) / 60
    note = f"from {len(rows)} samples: {rate:,.0f} a second, images encoded once at {len(rows) / ahead:,.0f} "
    note += f"a second; {_precision(options)}, batches of {batch} x {parts}, all of the text encoder"
    what = f"the paper's configuration, {PAPER_EPOCHS} epochs of {PAPER_SAMPLES:,} samples"
    return Row(SECTION, what, minutes, "minutes", note=note)


def _fine_tuned(options: Options, layers: int | None = 12) -> SuiSei:
    model = SuiSei(
        text=TextEncoderConfig(name="random", trained_layers=layers),
        image=None,
        fusion=FusionConfig(references="concat"),
        head=HeadConfig(hidden=inputs.HIDDEN[options.size]),
        optimizer=OptimizerConfig(name="adamw", frozen_fraction=0.0),
        image_dropout=0.0,
    )
    model.regressor = inputs.regressor(options, image=False, references="concat")
    model.regressor.text.backbone = light(model.regressor.text.backbone)  # as a training makes it
    model.regressor.text.set_trainable(True, layers=layers)
    return model


def _epoch(
    model: SuiSei, rows: list[CaptionSample], batching: str, options: Options, *, all_words: bool = False
) -> Callable[[], float]:
    """Return what trains one epoch on the rows and says how long it took."""
    table = SampleTable(rows, with_images=False)
    collate = model.prepare(table, range(len(rows)), lambda *_: lambda _: None)
    if all_words:
        model.regressor.text.keep_all()

    def epoch() -> float:
        clock = _Clock()
        data = _data(rows, collate, len(rows), BATCH, batching)
        _trainer(1, options, [clock]).fit(model, datamodule=data)
        return clock.seconds[0]

    return epoch


def _data(rows: Any, collate: Collator, training: int, batch_size: int, batching: Any) -> CaptionDataModule:
    data = CaptionDataModule(batch_size=batch_size, batching=batching)
    data.samples = list(rows)
    data.split = Split(tuple(range(training)), tuple(range(max(training - 8, 0), training)), ())
    data.attach(collate, 0, collate.lengths)
    return data


class _Clock(Callback):
    """Times every epoch, from before its first batch is made to the end of its last step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._start = 0.0

    def on_train_epoch_start(self, *_: Any) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if trainer.is_last_batch:
            settle()
            self.seconds.append(time.perf_counter() - self._start)


# -- from cached features -------------------------------------------------------------------------


def _frozen(options: Options) -> Iterator[Row]:
    """Train heads on features that are in memory, as every epoch of a frozen encoder but the first does."""
    count = options.frozen_samples
    rows = _drawn(count)
    small = {"poolings": ["mean"], "references": "mean-max"}
    small["blocks"] = ["candidate", "reference-product", "reference-difference"]
    cases = [
        (f"frozen, last layer, width {WIDTH}, head 512", WIDTH, "last", small, (512,)),
        ("frozen, the paper's mix and head", 768, "mix", {"references": "concat"}, (2304, 1152)),
    ]
    if options.size == "tiny":
        cases = [("frozen", 32, "mix", {}, (8,))]
    for what, width, layers, fusion, hidden in cases:
        several = count if layers == "last" else count // 8
        rates, loading = _frozen_rates(options, rows[: several + 8], several, width, layers, fusion, hidden)
        note = f"{several} samples, {REFERENCES} references, batches of {FROZEN_BATCH}, later epochs; "
        note += f"making batches alone: {loading:,.0f} samples/s"
        yield Row(SECTION, what, statistics.median(rates), "samples/s", note=note)


def _frozen_rates(
    options: Options,
    rows: list[CaptionSample],
    count: int,
    width: int,
    layers: str,
    fusion: dict,
    hidden: tuple[int, ...],
) -> tuple[list[float], float]:
    depth = 12 if layers == "mix" and width == 768 else 2
    tiny = TinyTextConfig(vocabulary=60, width=width, layers=depth)
    text = TextEncoder.create(
        TextEncoderConfig(name="tiny", layers=layers, frozen=True, tiny=tiny), ["a caption", "image 0"]
    )
    model = SuiSei(
        text=TextEncoderConfig(name="tiny", layers=layers, frozen=True, tiny=tiny),
        image=None,
        fusion=FusionConfig(**fusion),
        head=HeadConfig(hidden=hidden),
        optimizer=OptimizerConfig(name="adamw"),
        image_dropout=0.0,
    )
    idf = inputs.IdfTable.fit(text.tokenize(["a caption"]))
    model.regressor = Regressor(model.config, text, None, idf)
    table = SampleTable(rows, with_images=False)
    shape = (len(table.captions), text.states, len(model.config.fusion.poolings), width)
    model.ahead.captions = FeatureTable(torch.randn(shape))
    clock, collate = _Clock(), Collator(table)
    data = _data(rows, collate, count, FROZEN_BATCH, "shuffled")
    start = time.perf_counter()
    for _ in data.train_dataloader():
        pass
    loading = count / (time.perf_counter() - start)
    _trainer(3, options, [clock]).fit(model, datamodule=data)
    return [count / each for each in clock.seconds[1:]], loading


def _drawn(count: int) -> list[CaptionSample]:
    """Return samples whose candidates are other images' references, as in Flickr8k-Expert."""
    generator = np.random.default_rng(0)
    pairs = generator.integers(IMAGES, size=(count + 8, 2))
    return [
        CaptionSample(
            f"caption {number % REFERENCES} of image {other}",
            tuple(f"caption {each} of image {image}" for each in range(REFERENCES)),
            None,
            Rating((float(number % 7) / 6,), 0, 1),
            group=str(image),
        )
        for number, (image, other) in enumerate(pairs.tolist())
    ]
