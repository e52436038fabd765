"""How fast SuiSei and PAC-S score, beside COMET's way of scoring, and how much of the machine they use."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from suisei.data.images import load_image
from suisei.data.sample import CaptionSample, language_of
from suisei.encoders.batch_sizes import images_per_batch, tokens_per_batch
from suisei.metrics.clipscore import PROMPT
from suisei.metrics.loading import load
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models.features import encode_captions, token_batches
from tests.benchmarks import clip_peer, inputs, plain
from tests.benchmarks.harness import Options, Row, alternate, compared, matrix_peak, seconds, spread
from tests.benchmarks.peers import Peer

SECTION = "scoring"
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PAC_BATCH = 64


def run(options: Options) -> Iterator[Row]:
    """Measure all of it."""
    rows = inputs.samples(options.root, options.rows)
    peers = spread(rows, options.peer_rows)
    slow = plain.PlainRegressor(options)
    sides = [("plain loop", partial(seconds, partial(plain.score, slow, peers)))]
    plain.score(slow, peers[:2])
    yield _work(slow, rows)
    if options.comet_python is None:
        yield from _regressor(options, rows, sides, len(peers))
    else:
        with Peer(options, peers) as comet:
            comet.run("score")
            name = f"unbabel-comet {comet.about['version']}"
            sides = [(name, partial(comet.run, "score")), *sides]
            yield from _regressor(options, rows, sides, len(peers))
    del slow, sides
    yield from _second_opinions(options)
    yield from _shares(options)
    yield from _contrastive(options, rows)


def _regressor(
    options: Options, rows: Sequence[CaptionSample], sides: list, peer_count: int
) -> Iterator[Row]:
    cases = {
        "candidate and two references": (2, False),
        "candidate, five references and image": (5, True),
    }
    for what, (references, image) in cases.items():
        own = inputs.with_references(rows, references, image=image)
        model = inputs.loaded(options, image=image, references="concat" if references == 2 else "mean")
        metric = SuiSeiMetric(model, device=options.device, cache="off")
        yield from _beside(what, metric, own, sides, peer_count, options)
        yield _one_by_one(what, metric, spread(own, min(100, options.peer_rows)), options)
    folder = inputs.shipped(options)
    if folder is not None:
        what = "candidate and two references, the model in the package"
        own = inputs.with_references(rows, 2, image=False)
        metric = load(folder, device=options.device, cache="off")
        yield from _beside(what, metric, own, sides, peer_count, options)


def _beside(
    what: str,
    metric: SuiSeiMetric,
    own: list[CaptionSample],
    sides: list,
    peer_count: int,
    options: Options,
) -> Iterator[Row]:
    metric.score(own[:4])
    times = alternate([_timed(metric, own), *(side for _, side in sides)], options.repeats)
    for (name, _), theirs in zip(sides, times[1:], strict=True):
        note = f"ours {metric.precision}, {len(own)} rows; theirs fp32, {peer_count} of the rows"
        note += ", two references, no image" if own[0].image is not None else ""
        yield compared(SECTION, what, (times[0], theirs), (len(own), peer_count), name, note=note)


def _one_by_one(what: str, metric: SuiSeiMetric, own: list[CaptionSample], options: Options) -> Row:
    """Measure how long a sample takes that is scored alone, as a program that waits for each would."""

    def alone() -> float:
        metric._forward.features.forget()
        return seconds(lambda: [metric.score([row]) for row in own])

    times = [alone() for _ in range(options.repeats)]
    each = 1000 * statistics.median(times) / len(own)
    return Row(
        SECTION, f"{what}, one sample at a time", each, "ms", note=f"{metric.precision}, {len(own)} rows"
    )


def _timed(metric: SuiSeiMetric, rows: list[CaptionSample]) -> Callable[[], float]:
    """Return what scores rows of which nothing is known yet and says how long it took."""

    def timed() -> float:
        for part in (metric, *metric._seconds.opened.values()):
            part._forward.features.forget()
        return seconds(lambda: metric.score(rows))

    return timed


def _second_opinions(options: Options) -> Iterator[Row]:
    """Measure what the second models of the model in the package cost, on the bundled scenes."""
    folder = inputs.shipped(options)
    if folder is None:
        return
    metric = load(folder, device=options.device, cache="off")
    alone = SuiSeiMetric(replace(metric.model, seconds=()), device=options.device, cache="off")
    for language in ("ja", "en"):
        spoken = [row for row in inputs.samples(None, 10**9) if language_of(row) == language]
        rows = inputs.with_references(spread(spoken, options.rows), 2, image=False)
        for each in (metric, alone):
            each.score(rows[:4])
        with_it, without = alternate([_timed(metric, rows), _timed(alone, rows)], options.repeats)
        what = f"the model in the package, captions in {language}"
        note = f"{metric.precision}, {len(rows)} captions and two references of the scenes"
        counts = (len(rows),) * 2
        yield compared(SECTION, what, (with_it, without), counts, "without second models", note=note)


def _work(slow: plain.PlainRegressor, rows: Sequence[CaptionSample]) -> Row:
    """Count tokens: what encoding once and sorting save, whatever the machine."""
    triples = inputs.with_references(rows, 2, image=False)
    once = [len(ids) for ids in slow.text.tokenize(inputs.captions_of(triples))]
    padded = sum(
        len(part) * once[part[0]] for part in token_batches(once, tokens_per_batch(slow.text.width, "cpu"))
    )
    every = [text for row in triples for text in (row.candidate, *row.references)]
    occurring = sum(len(ids) for ids in slow.text.tokenize(every))
    theirs = plain.padded_tokens(slow, triples)
    note = f"encoded once {occurring / sum(once):.2f} times less, padding {theirs / occurring:.2f} against "
    note += f"{padded / sum(once):.3f}; {sum(once) / len(once):.1f} tokens a caption"
    ratio = theirs / padded
    return Row(SECTION, "tokens to encode", padded, "tokens", "plain loop", float(theirs), ratio, note)


def _contrastive(options: Options, rows: Sequence[CaptionSample]) -> list[Row]:
    from suisei.encoders.dual_loading import load_dual_encoder
    from suisei.metrics.pacs import PacScore

    if options.size == "tiny":  # CLIP ViT-B/32 has no smaller sister in open_clip; a few pairs do
        rows = rows[:2]
    fast = load_dual_encoder("ViT-B-32", seed=0, device=options.device)
    slow = load_dual_encoder("ViT-B-32", seed=0, device=options.device, precision="fp32")
    fast.memory = None  # repeats must not find what the first one left
    metric = PacScore(encoder=fast)
    peers = spread(rows, 2 * options.peer_rows)
    own = inputs.with_references(rows, 0, image=True)
    torchmetrics = clip_peer.scorer("ViT-B-32", options.device)

    def loop() -> float:
        return seconds(
            lambda: plain.clip_scores(slow.model, slow.transform, slow.tokenizer, peers, PROMPT, PAC_BATCH)
        )

    def ours() -> float:
        return seconds(lambda: metric.score(own))

    metric.score(own[:2])
    torchmetrics(peers[:1])
    times = alternate([ours, loop, lambda: seconds(lambda: torchmetrics(peers))], options.repeats)
    counts = len(own), len(peers)
    note = f"ViT-B/32; ours {fast.precision}, {counts[0]} pairs; theirs fp32, {counts[1]} of the pairs"
    names = ("plain open_clip loop", "torchmetrics' CLIPScore")
    return [
        compared(SECTION, what, (times[0], theirs), counts, name, note=note)
        for what, name, theirs in zip(("PAC-S", "CLIP-S or PAC-S"), names, times[1:], strict=True)
    ]


def _shares(options: Options) -> list[Row]:
    """Return how much of the measured matrix-product peak the encoders reach."""
    loaded = inputs.loaded(options, image=True, references="mean")
    metric = SuiSeiMetric(loaded, device=options.device, cache="off")
    model, dtype = metric.regressor, DTYPES[metric.precision]
    rows = inputs.samples(options.root, 10**9)
    captions = spread(inputs.captions_of(rows), options.captions)
    ids = model.text.tokenize(captions)
    operations = inputs.matrix_operations(model.text, [len(own) for own in ids])
    images = list(dict.fromkeys(row.image for row in rows))[: max(2, options.captions // 10)]
    assert model.image is not None
    preprocess = model.image.preprocess
    pixels = torch.stack([preprocess(load_image(image)) for image in images]).to(options.device)
    size = images_per_batch(model.image.tower, options.device)
    encode_captions(model, ids[:8], mixed=True)

    def text() -> float:
        return seconds(lambda: encode_captions(model, ids, mixed=True))

    def tower() -> float:
        with torch.inference_mode():
            return seconds(lambda: [model.encode_image(part) for part in pixels.split(size)])

    peaks, times = [], [[], []]
    for _ in range(options.repeats):
        peaks.append(matrix_peak(dtype, device=options.device))
        times[0].append(text())
        peaks.append(matrix_peak(dtype, device=options.device))
        times[1].append(tower())
    image_operations = _image_operations(model.image.tower, len(pixels), pixels.shape[-1])
    shares = [
        [work / own / max(peaks[2 * n : 2 * n + 2]) for n, own in enumerate(spent)]
        for work, spent in zip((operations, image_operations), times, strict=True)
    ]
    peak, tokens = statistics.median(peaks), sum(map(len, ids))
    note = f"{metric.precision}; {len(captions)} captions; operations of tokens that are not padding"
    found = [
        Row(SECTION, "matrix-product peak", peak / 1e9, "GFLOP/s", note=metric.precision),
        Row(SECTION, "text encoder", tokens / statistics.median(times[0]), "tokens/s", note=note),
        Row(SECTION, "text encoder", 100 * statistics.median(shares[0]), "% of peak", note=note),
    ]
    if image_operations:
        note = f"{metric.precision}; {len(pixels)} images, decoded before"
        found += [
            Row(SECTION, "image tower", len(pixels) / statistics.median(times[1]), "images/s", note=note),
            Row(SECTION, "image tower", 100 * statistics.median(shares[1]), "% of peak", note=note),
        ]
    return found


def _image_operations(tower: torch.nn.Module, count: int, side: int) -> float:
    """Return the operations of a vision transformer's matrix products; 0 for another tower."""
    blocks = getattr(getattr(tower, "transformer", None), "resblocks", None)
    if blocks is None:
        return 0.0
    width = tower.conv1.out_channels
    patches = (side // tower.conv1.kernel_size[0]) ** 2
    length = patches + 1
    layers = sum(p.numel() for block in blocks for p in block.parameters() if p.ndim == 2)
    attention = 4.0 * len(blocks) * width * length**2
    return count * (2.0 * layers * length + attention + 2.0 * tower.conv1.weight.numel() * patches)
