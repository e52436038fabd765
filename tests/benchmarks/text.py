"""How fast BLEU, ROUGE-L and CIDEr are beside pycocoevalcap, and chrF beside sacrebleu, on one core.

Scores the 5,664 pairs of Flickr8k-Expert with five references each. Both sides start from the same
tokens, joined by spaces. Three cases:

- expert: the pairs as they are; 1,000 images, so references repeat, which suisei counts only once;
- distinct: as many pairs as there are images, so nothing repeats and only the arithmetic counts;
- whole: raw captions, suisei with its tokenizer, pycocoevalcap with Java's, as a user would run them.

chrF and sacreBLEU are beside sacrebleu, whose own function takes one pair at a time; raw captions.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import statistics
from collections.abc import Callable

from suisei.data.sample import CaptionSample
from suisei.metrics import bleu as bleu_module
from suisei.metrics.bleu import Bleu
from suisei.metrics.cider import Cider
from suisei.metrics.rouge import RougeL
from suisei.metrics.sacrebleu import ChrF, SacreBleu
from suisei.metrics.tokenizers import get_tokenizer, tokenize_samples
from tests.benchmarks import inputs
from tests.benchmarks.harness import Options, Row, alternate, compared, seconds

SECTION = "text"
PEER = "pycocoevalcap"
NAMES = ("BLEU-1..4", "ROUGE-L", "CIDEr")


def run(options: Options) -> list[Row]:
    """Measure the three cases; the one with Java where Java is installed."""
    raw = list(inputs.samples(options.root, 10**9 if options.size == "base" else 20))
    tokens = [_joined(sample) for sample in raw]
    distinct = list({sample.references: sample for sample in tokens}.values())
    cases = {
        "expert": (tokens, _suisei(tokens, "whitespace"), _coco(tokens)),
        "distinct": (distinct, _suisei(distinct, "whitespace"), _coco(distinct)),
    }
    if shutil.which("java") and options.size == "base":
        cases["whole"] = (raw, _suisei(raw, "ptb"), _coco_with_java(raw))
    rows = []
    for case, (samples, ours, theirs) in cases.items():
        for name in NAMES:
            fast, slow = alternate([_timed(ours[name]), _timed(theirs[name])], options.repeats)
            ratio = statistics.median(b / a for a, b in zip(fast, slow, strict=True))
            times = statistics.median(fast), statistics.median(slow)
            what = f"{name}, {case}, {len(samples)} pairs"
            rows.append(Row(SECTION, what, times[0], "s", PEER, times[1], ratio))
    return [*rows, *_library(raw, options)]


def _library(raw: list[CaptionSample], options: Options) -> list[Row]:
    """Compare with the library's function for one sentence, called as its documentation does."""
    from sacrebleu import sentence_bleu, sentence_chrf

    rows = []
    for metric, function in ((ChrF(), sentence_chrf), (SacreBleu(), sentence_bleu)):

        def loop(function: Callable = function) -> None:
            for sample in raw:
                function(sample.candidate, list(sample.references))

        sides = [lambda metric=metric: seconds(lambda: metric.score(raw)), lambda: seconds(loop)]
        times = tuple(alternate(sides, options.repeats))
        rows.append(compared(SECTION, metric.name, times, (len(raw),) * 2, "sacrebleu"))
    return rows


def _timed(function: Callable[[], object]) -> Callable[[], float]:
    def timed() -> float:
        with contextlib.redirect_stdout(io.StringIO()):
            return seconds(function)

    return timed


def _joined(sample: CaptionSample) -> CaptionSample:
    tokenized = tokenize_samples([sample], get_tokenizer("ptb"))[0]
    references = tuple(" ".join(reference) for reference in tokenized.references)
    return CaptionSample(" ".join(tokenized.candidate), references)


def _suisei(samples: list[CaptionSample], tokenizer: str) -> dict[str, Callable[[], object]]:
    def bleu() -> None:
        bleu_module._last_statistics._entry = None  # what the last repeat left would be the answer
        for n in (1, 2, 3, 4):
            metric = Bleu(n, tokenizer)
            metric.corpus_score(samples, metric.score(samples))

    def rouge() -> None:
        RougeL(tokenizer).score(samples)

    def cider() -> None:
        metric = Cider(tokenizer)
        metric.fit(samples)
        metric.score(samples)

    return dict(zip(NAMES, (bleu, rouge, cider), strict=True))


def _scorers() -> dict[str, Callable[[dict, dict], object]]:
    from pycocoevalcap.bleu.bleu import Bleu as CocoBleu
    from pycocoevalcap.cider.cider import Cider as CocoCider
    from pycocoevalcap.rouge.rouge import Rouge

    functions = (
        lambda gts, res: CocoBleu(4).compute_score(gts, res, verbose=0),
        lambda gts, res: Rouge().compute_score(gts, res),
        lambda gts, res: CocoCider().compute_score(gts, res),
    )
    return dict(zip(NAMES, functions, strict=True))


def _coco(samples: list[CaptionSample]) -> dict[str, Callable[[], object]]:
    gts = {i: list(sample.references) for i, sample in enumerate(samples)}
    res = {i: [sample.candidate] for i, sample in enumerate(samples)}
    return {name: lambda score=score: score(gts, res) for name, score in _scorers().items()}


def _coco_with_java(samples: list[CaptionSample]) -> dict[str, Callable[[], object]]:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    gts = {i: [{"caption": text} for text in sample.references] for i, sample in enumerate(samples)}
    res = {i: [{"caption": sample.candidate}] for i, sample in enumerate(samples)}

    def whole(score: Callable[[dict, dict], object]) -> object:
        tokenizer = PTBTokenizer()
        return score(tokenizer.tokenize(gts), tokenizer.tokenize(res))

    return {name: lambda score=score: whole(score) for name, score in _scorers().items()}
