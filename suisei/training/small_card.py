"""The card of a model that ``suisei compact`` made: what it holds of others, how, and how far it carries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import DataError
from suisei.metrics.default_model import NAME as DEFAULT
from suisei.metrics.training_data import SECOND, learned_sentence
from suisei.training.card import NO_SCORE

_E5 = (
    "MIT",
    "Liang Wang, Nan Yang, Xiaolong Huang, Linjun Yang, Rangan Majumder, Furu Wei: Multilingual E5 Text "
    "Embeddings: A Technical Report, 2024 ([arXiv 2402.05672](https://arxiv.org/abs/2402.05672)); "
    "`intfloat/{name}` on the Hugging Face hub",
)
_MINILM = (
    "Apache-2.0",
    "the authors of sentence-transformers, after Wenhui Wang, Furu Wei, Li Dong, Hangbo Bao, Nan Yang, Ming "
    "Zhou: MiniLM, NeurIPS 2020 ([arXiv 2002.10957](https://arxiv.org/abs/2002.10957)); "
    "`sentence-transformers/{name}` on the Hugging Face hub. Captions of COCO and Flickr30k are among the "
    "sentences that it learned from, none of them rated",
)
ENCODERS = {f"multilingual-e5-{size}": _E5 for size in ("small", "base", "large")} | {
    "all-MiniLM-L6-v2": _MINILM
}
"""{last part of an encoder's name: (licence, authors and where it is from)}."""
TERMS = {
    "shichimi": "ratings of Japanese captions of COCO images (Wada et al., CoNLL 2023): research use",
    "pfn-pic-gen": "ratings of Japanese captions: ask its authors",
    "flickr8k-expert": "expert ratings of English captions (Hodosh et al., JAIR 2013): research use; the "
    "photographs belong to their owners",
    "flickr8k-cf": "crowd ratings of English captions (Hodosh et al., JAIR 2013): research use",
    "flickr8k-train": "captions of Flickr8k's training images, none rated: research use",
    "jsts": "pairs of Japanese captions and their similarity (Kurihara et al., LREC 2022): CC BY-SA 4.0",
    "polaris": "ratings of English captions (Wada et al., CVPR 2024): BSD-3-Clause-Clear",
    "scenes": "the bundled sample, simulated: Apache-2.0, like this package",
}
"""{data: what it is and its terms}; data/README.md of the project has all of them."""
TOWERS = {
    "tf_efficientnet_lite0": (
        "Apache-2.0",
        "EfficientNet-Lite0 with ImageNet weights, of the authors of TensorFlow's TPU models; Mingxing "
        "Tan, Quoc V. Le: EfficientNet, ICML 2019 ([arXiv 1905.11946](https://arxiv.org/abs/1905.11946))",
    ),
}
"""{name of an image tower: (licence, what it is and from whom)}."""
IMAGE_TOWER, SECOND_MODEL, BRIDGE = "## Image tower", "## Second model", "## Across languages"
_ENCODER, _STORAGE, _DATA_TERMS = "## Text encoder", "## Storage", "## Terms of the data"
_BESIDE_OTHERS = "## Beside other metrics"
_CUT, _CHANGES = "- The vocabulary is cut to ", "- Of its scores that changes: "
_CHANGED_BEFORE = "- It was made small before, and of its scores that changed: "
_TERMS_TABLE = "| data | what it is, and its terms |"
_HOLDS = (
    "The folder holds no image and no list of captions. Idf tables of metrics that the model reads, such as "
    "CIDEr's, hold n-grams of up to four words of training references, some of which are whole short captions"
    ". Take the terms into account outside research."
)
_SIGNED = "- Scores of this folder are signed "
_READING = re.compile(r"^- It (?:does not look at the image|looks at the image).*$", re.MULTILINE)
_READINGS = {
    "cosine": " only where there are no references; beside references it changes nothing",
    "cosines": ", beside references and without",
}
"""{how a score starts: where the image is looked at}."""
_LOSS = re.compile(r"^- .* may be missing, at some loss of agreement; .*$", re.MULTILINE)
"""What cards of earlier versions say of models that start from the cosine too, wrongly."""
_IMAGE_SETTINGS = re.compile(r'"image": (?:null|\{.*?\n  \}),', re.DOTALL)
_CORRELATIONS = {"pearson": "Pearson", "spearman": "Spearman", "tau-b": "tau-b", "tau-c": "tau-c"}


@dataclass(frozen=True)
class Storage:
    """How a small model is stored.

    Attributes:
        encoder: name of its text encoder.
        pieces: pieces of its vocabulary, if that was cut.
        bits: of the encoder's weights, or of those before training.
        change_bits: of what training changed, if that is stored apart.
    """

    encoder: str
    pieces: int | None
    bits: int
    change_bits: int | None


def small_card(
    card: str, storage: Storage, *, name: str | None = None, figures: Mapping[str, Any] | None = None
) -> str:
    """Return the card of the whole model with what is true of the small one.

    Args:
        card: of the whole model, or of one that was made small before.
        storage: how the small one is stored.
        name: what to call it.
        figures: what ``python -m tests.benchmarks.zero_shot`` wrote.

    Raises:
        DataError: the figures are of another form.
    """
    card = _mended(card.strip() or "# A SuiSei model")
    if name:
        card = re.sub(r"^# .*", lambda _: f"# {name}", card, count=1)
    if name == DEFAULT:
        card = card.replace('suisei.load("PATH OF THIS FOLDER")', "suisei.load()")
    earlier = _kept_of(card, storage)
    for heading in (_ENCODER, _STORAGE, _DATA_TERMS, *([_BESIDE_OTHERS] if figures else [])):
        card = _without_section(card, heading)
    card = _signed_before(card.rstrip(), "it was made small")
    parts = [card, _encoder(storage), _storage(storage, earlier), _terms(card)]
    if figures is not None:
        parts.append(figures_table(figures))
    return "\n\n".join(part for part in parts if part) + "\n"


def measured_card(card: str, found: str, signature: str) -> str:
    """Return a small model's card with what making it small changed, and what its scores are signed with.

    Args:
        card: of :func:`small_card`.
        found: by how much scores differ from those of the whole model, and on what.
        signature: of the small model.
    """
    lines = f"{_CHANGES}{found}.\n{_SIGNED}`{signature}`."
    before, heading, after = card.partition(f"\n{_STORAGE}\n")
    storage, *rest = after.split("\n\n## ", 1)
    return "".join((before, heading, storage.rstrip(), "\n", lines, *(f"\n\n## {part}" for part in rest)))


def signed_card(card: str, signature: str) -> str:
    """Return a card with another signature of its folder, where it has such a line."""
    return re.sub(rf"(?<={re.escape(_SIGNED)}`)[^`]*", lambda _: signature, card)


def _signed_before(card: str, changed: str) -> str:
    """Say of a card's signatures that they are of the model before a change, which gives another."""
    said = f"- signature, before {changed}: "
    return re.sub(r"^- signature: (?=`suisei\|)", said, card, flags=re.MULTILINE)


def card_with_images(card: str, tower: str, learned: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Return the card of a model with what is true of it since it looks at images.

    Args:
        card: of the model before.
        tower: name of the image tower.
        learned: the data that the image side was learned from.
        settings: the model's settings now.
    """
    card = _begun(card, "it looked at images")
    example = 'metric.score(["a caption"], references=[["what a person wrote"]]'
    card = card.replace(f"{example})", f'{example}, images=["image.jpg"])')
    start = settings["head"]["start"]
    card = _READING.sub(f"- It looks at the image{_READINGS[start]}.", card)
    card = _without_section(card, IMAGE_TOWER)
    card = _IMAGE_SETTINGS.sub(lambda _: f'"image": {_indented(settings["image"])},', card, count=1)
    card = re.sub(r'"start": "cosines?"', f'"start": "{start}"', card)
    name = tower.removeprefix("timm:")
    licence, authors = TOWERS.get(name, ("", ""))
    terms = f"licence {licence}: {authors}" if licence else "under the terms of its authors"
    lines = [
        IMAGE_TOWER,
        "",
        f"`{tower}`, {terms}. It stays as it was; one matrix projects what it says of an image to what the "
        f"text encoder says of captions, learned with `suisei add-images` from {', '.join(learned)}, after "
        "all else: figures above were taken without images.",
    ]
    return _before_storage(_with_terms_of(card, learned), lines)


def card_with_second(
    card: str,
    second: str,
    languages: Sequence[str],
    learned: str,
    *,
    equal: bool = False,
    depth: int | None = None,
    ratings: Sequence[str] = (),
) -> str:
    """Return the card of a model with what is true of it since a second model is weighed beside it.

    Args:
        card: of the model before.
        second: name of the second's text encoder.
        languages: those that the second is asked of.
        learned: the data that say how much it counts, "" where none do.
        equal: whether both spread as far over these; else it is fitted to their ratings.
        depth: how many layers of the first's encoder it reads with; None for an encoder of its own.
        ratings: the data whose ratings the second learned from.
    """
    card = _begun(card, "it had a second model")
    spoken = " and ".join(LANGUAGE_NAMES[language] for language in languages)
    over = f"the first {depth} layers of this model's own encoder." if depth else _of_encoder(second)
    fitted = f"was fitted with `suisei add-model` to {learned}" if learned else "was given to it"
    if equal:
        fitted = f"was set with `suisei add-model` so that both logits spread as far over {learned}"
    said = (
        f"Over {over} It is asked of {spoken} captions with references; their score is a weighed mean of "
        f"both models' on the scale of logits. How much it counts {fitted}, after all else: figures above "
        f"are of the first model alone. {learned_sentence(SECOND, ratings)}"
    ).rstrip()
    card = _with_terms_of(card, [*ratings, *([learned] if learned else [])])
    before, heading, after = card.partition(f"\n{SECOND_MODEL}\n")
    if not heading:
        return _before_storage(card, [SECOND_MODEL, "", said])
    own, following, rest = after.partition("\n## ")  # beside one in another language
    return f"{before}{heading}{own.rstrip()}\n\n{said}\n{following}{rest}"


def card_with_bridge(card: str, learned: str) -> str:
    """Return the card of a model with what is true of it since it has a bridge between languages.

    Args:
        card: of the model before.
        learned: the data that the bridge was fitted to.
    """
    card = _without_section(_begun(card, "it had a line across languages"), BRIDGE)
    lines = [
        BRIDGE,
        "",
        "A caption is compared with its references in its own language. Where it has none, its score is a "
        f"line through its cosine with the others, fitted with `suisei add-bridge` to {learned}, without "
        "ratings: so that captions there score beside either language as beside their own. Figures above "
        "were taken before.",
    ]
    return _before_storage(_with_terms_of(card, [learned]), lines)


def _begun(card: str, changed: str) -> str:
    """Return a card that further sections can follow, whose signatures are of the model before a change."""
    return _signed_before(_mended(card.strip() or "# A SuiSei model"), changed) + "\n"


def _mended(card: str) -> str:
    """Return a card whose word on captions that lack something is true, of a start from the cosine too."""
    return _LOSS.sub(f"- {NO_SCORE}", card) if re.search('"start": "cosines?"', card) else card


def _without_section(card: str, heading: str) -> str:
    """Return a card without the sections of a heading."""
    return re.sub(rf"\n{heading}\n.*?(?=\n## |\Z)", "", card, flags=re.DOTALL)


def _kept_of(card: str, storage: Storage) -> list[str]:
    """Return what stays true of the storage of a model that was made small before."""
    kept = []
    for line in card.partition(f"\n{_STORAGE}\n")[2].partition("\n## ")[0].splitlines():
        if line.startswith(_CHANGED_BEFORE) or (line.startswith(_CUT) and storage.pieces is None):
            kept.append(line)
        elif line.startswith(_CHANGES):
            kept.append(line.replace(_CHANGES, _CHANGED_BEFORE, 1))
    return kept


def _before_storage(card: str, lines: Sequence[str]) -> str:
    """Return a card with a section before the one on storage, or at the end."""
    section = "\n".join(lines) + "\n"
    before, heading, after = card.partition(f"\n{_STORAGE}\n")
    return f"{before}\n{section}{heading}{after}" if heading else f"{card}\n{section}"


def _with_terms_of(card: str, learned: Sequence[str]) -> str:
    """Return a card whose table of terms, where it has one, has rows of further data."""
    before, heading, after = card.partition(f"\n{_TERMS_TABLE}\n")
    table, gap, rest = after.partition("\n\n")
    rows = [
        f"\n| `{name}` | {TERMS[name]} |"
        for name in dict.fromkeys(learned)
        if name in TERMS and f"`{name}`" not in table
    ]
    return "".join((before, heading, table, *rows, gap, rest)) if heading else card


def _indented(settings: Any) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False).replace("\n", "\n  ")


def _encoder(storage: Storage) -> str:
    return f"{_ENCODER}\n\n{_of_encoder(storage.encoder)}"


def _of_encoder(encoder: str) -> str:
    """Say whose an encoder is, and on what terms."""
    name = encoder.rsplit("/", 1)[-1]
    licence, authors = ENCODERS.get(name, ("", ""))
    if not licence:
        return f"`{encoder}`, under the terms of its authors."
    return f"`{name}`, licence {licence}: {authors.format(name=name)}."


def _storage(storage: Storage, earlier: Sequence[str]) -> str:
    lines = [_STORAGE, "", *earlier]
    if storage.pieces is not None:
        lines.append(
            f"{_CUT}{storage.pieces:,} pieces: every single character, so that nothing "
            "is unknown which was not, the pieces of Japanese scripts, and those of English words."
        )
    if storage.change_bits is None:
        lines.append(f"- The encoder's matrices are in {storage.bits} bits, with a scale for 32 weights.")
    else:
        lines.append(
            "- The encoder's matrices are stored as they were before training, in "
            f"{storage.bits} bits with a scale for 32 weights, and what training changed in "
            f"{storage.change_bits} bits with a scale per row. Both are added up when the model is loaded."
        )
    return "\n".join(lines)


def _terms(card: str) -> str:
    """Return the terms of the data that a card names."""
    named = [name for name in TERMS if re.search(rf"(?<![\w-]){name}(?![\w-])", card)]
    if not named:
        return ""
    rows = [f"| `{name}` | {TERMS[name]} |" for name in named]
    heading = [_DATA_TERMS, "", _TERMS_TABLE, "|---|---|"]
    return "\n".join([*heading, *rows, "", _HOLDS])


def figures_table(figures: Mapping[str, Any]) -> str:
    """Return a section with the table of data sets, on each the model beside other metrics.

    Args:
        figures: ``how``, a sentence, and ``sets``: of each data, samples, correlation and rows (label, cells,
            and ``less``: by how much the model is ahead of it).

    Raises:
        DataError: the figures are of another form.
    """
    try:
        tables = [_set_rows(own) for own in figures["sets"]]
        how = str(figures["how"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the figures are not those of zero_shot.py ({error!r})") from None
    heading = [
        _BESIDE_OTHERS,
        "",
        how,
        "",
        "| data | metric | Pearson | Spearman | Kendall | this model's lead, 95 % interval, p (Holm) |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*heading, *(row for table in tables for row in table)])


def _set_rows(own: Mapping[str, Any]) -> Sequence[str]:
    kind = str(own["correlation"])
    place = f"{own['data']}, {counted(int(own['samples']), 'sample')}"
    rows: list[str] = []
    for row in own["rows"]:
        shown = [_number(row["cells"].get(name)) for name in ("pearson", "spearman", kind)]
        shown[2] += f" ({_CORRELATIONS[kind]})" if shown[2] != "–" else ""
        difference = row.get("less")
        label = f"**{row['label']}**" if difference is None and not rows else str(row["label"])
        rows.append(f"| {place} | {label} | {' | '.join(shown)} | {_difference(difference)} |")
        place = ""
    return rows


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _difference(less: Mapping[str, float] | None) -> str:
    if less is None:
        return ""
    p = "<.001" if less["holm"] < 0.001 else f"{less['holm']:.3f}"
    return f"{less['value']:+.3f} [{less['low']:+.3f}, {less['high']:+.3f}], {p}"
