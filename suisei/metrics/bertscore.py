"""BERTScore (Zhang et al., 2020) with any Hugging Face encoder.

Shape letters: N samples, P candidate-reference pairs, C and R tokens of a candidate and a reference,
d width of the hidden states.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.data.given_samples import as_samples
from suisei.data.sample import CaptionSample
from suisei.encoders.locks import Lock
from suisei.encoders.precision_words import PRECISION
from suisei.encoders.pretrained import check_config_file, longest_input
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.windows import windows
from suisei.progress import in_parts, progress_bar
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from torch import Tensor

DEFAULT_MODEL = "bert-base-multilingual-cased"
OUTPUTS = ("precision", "recall", "f1")

# The layer that agrees best with people on WMT16, as published with the bert-score package.
LAYERS = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "bert-base-multilingual-cased": 9,
    "distilbert-base-uncased": 5,
    "distilbert-base-multilingual-cased": 5,
    "distilroberta-base": 5,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
    "albert-base-v2": 9,
    "albert-large-v2": 14,
    "deberta-base": 9,
    "deberta-large": 16,
    "deberta-large-mnli": 18,
    "deberta-xlarge": 18,
    "deberta-xlarge-mnli": 40,
    "mpnet-base": 8,
}

KEPT_NUMBERS = 2**28
"""Of the hidden states of all layers of a batch, at most."""
WINDOW = 1024
"""Samples whose tokens' vectors are in memory at once."""
_CHUNK = 4096  # references tokenized together in fitting
_BYTE_LEVEL = {"RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast"}


class BertScore(Metric):
    """Greedy matching of contextual token vectors by cosine (Zhang et al., 2020, section 3).

    Precision averages, over the candidate's tokens, the highest cosine with a reference token;
    recall does so over the reference's tokens; the F1 is their harmonic mean. The range is [-1, 1],
    before rescaling, but for the F1 of two of opposite signs, which has no limits. Special tokens can be
    matched but weigh nothing. Of several references the best counts.

    Args:
        model: a Hugging Face encoder, or a folder with one.
        num_layers: the layer whose hidden states are compared, from 0 (embeddings); None takes
            the published choice for a known model, else the last layer.
        output: "precision", "recall" or "f1".
        idf: whether tokens are weighted by their inverse document frequency in the references that
            :meth:`fit` was given.
        baseline: rescale to ``(score - b) / (1 - b)``: b itself, or a file of the bert-score package
            (columns LAYER,P,R,F).
        device: a torch device, or "auto".
        precision: what the encoder computes in, see :func:`suisei.encoders.precision.choose_precision`.
    """

    name = "bertscore"
    needs = frozenset({"references"})

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        num_layers: int | None = None,
        output: str = "f1",
        idf: bool = False,
        baseline: float | str | Path | None = None,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        check("output", output, Word(OUTPUTS))
        check("precision", precision, PRECISION)
        self._precision = precision
        self.model_name = model
        self.output = output
        self.idf = idf
        self.device = device
        self._num_layers = num_layers
        self._baseline = baseline
        self._lock = Lock()
        self._parts: tuple[Any, Any, int] | None = None
        self._documents = 0
        self._counts: dict[int, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": None}  # an encoder in use cannot be pickled; it is loaded again

    @property
    def num_layers(self) -> int:
        """The layer whose hidden states are compared."""
        return self._encoder()[2]

    @property
    def precision(self) -> str:
        """What the encoder computes in on its device."""
        from suisei.encoders.precision import choose_device, choose_precision

        return choose_precision(self._precision, choose_device(self.device))

    def settings(self) -> dict[str, str]:
        """Return encoder, layer, output, idf, rescaling and precision."""
        own = {
            "model": signed_label(self.model_name),
            "layer": str(self.num_layers),
            "output": self.output,
            "idf": f"fitted-{self._documents}" if self.idf else "no",
            "ref": "max",
            "dtype": self.precision,
        }
        if self._baseline is not None:
            own["baseline"] = f"{self._baseline_value():.6g}"
        return own

    @property
    def needs_fit(self) -> bool:
        """Whether idf is wanted and not there yet."""
        return self.idf and not self._documents

    def fit(self, samples: Iterable[CaptionSample] | Any) -> None:
        """Count token frequencies; every reference of every sample is one document, as in bert-score.

        Args:
            samples: as :meth:`Metric.score` takes them.

        Raises:
            DataError: there is no reference.
        """
        self.fit_stream(as_samples(samples))

    def fit_stream(self, samples: Iterable[CaptionSample]) -> None:
        """Count as :meth:`fit` does, holding a few thousand references at a time.

        Raises:
            DataError: there is no reference.
        """
        references = (reference for sample in samples for reference in sample.references)
        counts: Counter[int] = Counter()
        number = 0
        while documents := list(islice(references, _CHUNK)):
            ids = self._tokenise(dict.fromkeys(documents))
            for document in documents:
                counts.update(set(ids[document]))
            number += len(documents)
        if not number:
            raise DataError("bertscore: idf is fitted on references, and there are none")
        self._documents, self._counts = number, dict(counts)

    def state(self) -> dict[str, Any]:
        """Return the document frequencies."""
        return {
            "model": model_label(self.model_name),
            "documents": self._documents,
            "counts": {str(token): count for token, count in sorted(self._counts.items())},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            ConfigError: the state is of another model, whose token ids are others, or is malformed.
        """
        try:
            model, documents = state["model"], int(state["documents"])
            counts = {int(token): int(count) for token, count in state["counts"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"this is not a saved BERTScore state: {type(error).__name__} {error}"
            ) from error
        own = model_label(self.model_name)
        if model != own:
            raise ConfigError(f"the BERTScore state was fitted with model {model}, this one uses {own}")
        self._documents, self._counts = documents, counts

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        if self.needs_fit:
            raise ConfigError("bertscore with idf needs fit(samples) or load_state(state) first")
        best = np.empty(len(samples))
        with progress_bar("BERTScore", len(samples), shown=progress, unit="samples") as advance:
            for rows in windows(samples, WINDOW):
                best[rows] = self._score_window([samples[row] for row in rows], batch_size, advance)
        if self._baseline is not None:
            baseline = self._baseline_value()
            best = (best - baseline) / (1 - baseline)
        return best

    def _score_window(
        self, samples: Sequence[CaptionSample], batch_size: int, advance: Callable[[int], Any]
    ) -> np.ndarray:
        """Return the scores [N] of samples whose tokens are in memory together, not rescaled."""
        pairs = [(sample.candidate, reference) for sample in samples for reference in sample.references]
        different = list(dict.fromkeys(pairs))
        texts = dict.fromkeys(text for pair in different for text in pair)
        ids = self._tokenise(texts)
        vectors = self._embed(ids, in_parts(advance, len(samples), len(ids)))
        weights = {text: self._weights(own) for text, own in ids.items()}
        different.sort(key=lambda pair: (len(ids[pair[1]]), len(ids[pair[0]])))
        values: dict[tuple[str, str], float] = {}
        for start in range(0, len(different), batch_size):
            batch = different[start : start + batch_size]
            values.update(zip(batch, self._match(batch, vectors, weights), strict=True))
        counts = [len(sample.references) for sample in samples]
        flat = np.asarray([values[pair] for pair in pairs], dtype=np.float64)
        best: np.ndarray = np.maximum.reduceat(flat, np.cumsum([0, *counts[:-1]]))
        return best

    def _match(
        self, pairs: Sequence[tuple[str, str]], vectors: dict[str, Tensor], weights: dict[str, Tensor]
    ) -> list[float]:
        """Score pairs whose unit token vectors are [C, d] and [R, d]."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        from suisei.models.greedy_matching import greedy_match, weighted_mean

        sides = []
        for side in (0, 1):
            texts = [pair[side] for pair in pairs]
            sides.append(
                (
                    pad_sequence([vectors[text] for text in texts], batch_first=True),
                    pad_sequence([weights[text] for text in texts], batch_first=True),
                    pad_sequence([torch.ones(len(vectors[text])) for text in texts], batch_first=True) > 0,
                )
            )
        (candidate, candidate_weight, candidate_mask), (reference, reference_weight, reference_mask) = sides
        # Unlike the package, padding is never the best match: a pair's score is its own alone.
        for_candidate, for_reference = greedy_match(candidate, reference, candidate_mask, reference_mask)
        precision = weighted_mean(for_candidate, candidate_weight)
        recall = weighted_mean(for_reference, reference_weight)
        if self.output != "f1":
            return (precision if self.output == "precision" else recall).tolist()
        total = precision + recall
        return torch.where(total != 0, 2 * precision * recall / total, 0.0).tolist()

    def _embed(self, ids: dict[str, list[int]], advance: Callable[[int], Any]) -> dict[str, Tensor]:
        """Return unit token vectors float32 [L, d] of every text, encoding the longest first."""
        from suisei.encoders.batch_sizes import tokens_per_batch
        from suisei.models.features import token_batches

        model = self._encoder()[0]
        texts, lengths = list(ids), [len(own) for own in ids.values()]
        vectors: dict[str, Tensor] = {}
        width, states = model.config.hidden_size, model.config.num_hidden_layers + 1  # all are kept
        budget = min(tokens_per_batch(width, model.device.type), KEPT_NUMBERS // (width * states))
        for rows in token_batches(lengths, budget):
            batch = [texts[row] for row in rows]
            vectors.update(zip(batch, self._embed_batch([ids[text] for text in batch]), strict=True))
            advance(len(batch))
        return vectors

    def _embed_batch(self, ids: list[list[int]]) -> list[Tensor]:
        import torch

        from suisei.encoders.precision import matrix_products

        model, tokenizer, layer = self._encoder()
        padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        with torch.inference_mode(), matrix_products(self.precision):
            states = model(
                input_ids=padded["input_ids"].to(model.device),
                attention_mask=padded["attention_mask"].to(model.device),
                output_hidden_states=True,
            ).hidden_states[layer]
            unit = torch.nn.functional.normalize(states.float(), dim=-1).cpu()
        return [row[mask] for row, mask in zip(unit, padded["attention_mask"].bool(), strict=True)]

    def _weights(self, ids: list[int]) -> Tensor:
        import torch

        if self.idf:
            values = [math.log((self._documents + 1) / (self._counts.get(token, 0) + 1)) for token in ids]
        else:
            tokenizer = self._encoder()[1]
            silent = {tokenizer.cls_token_id, tokenizer.sep_token_id}
            values = [float(token not in silent) for token in ids]
        return torch.tensor(values, dtype=torch.float32)

    def _tokenise(self, texts: Iterable[str]) -> dict[str, list[int]]:
        model, tokenizer, _ = self._encoder()
        # Byte-level vocabularies tell a word at the start from the same word after a space.
        lead = " " if type(tokenizer).__name__ in _BYTE_LEVEL else ""
        listed = list(texts)
        with self._lock:  # truncation is the tokenizer's own state
            encoded = tokenizer(
                [lead + text.strip() for text in listed],
                truncation=True,
                max_length=longest_input(model.config, tokenizer),
            )
        return dict(zip(listed, encoded["input_ids"], strict=True))

    def _encoder(self) -> tuple[Any, Any, int]:
        """Return model, tokenizer and layer, loaded on first use."""
        with self._lock:
            if self._parts is None:
                self._parts = self._load()
            return self._parts

    def _load(self) -> tuple[Any, Any, int]:
        import torch
        from transformers import AutoModel

        from suisei.encoders.hub_errors import hub_guard, no_bars
        from suisei.encoders.precision import choose_device, to_precision
        from suisei.encoders.text_parts import load_tokenizer

        check_config_file(Path(self.model_name))
        with hub_guard(self.model_name), no_bars():
            tokenizer = load_tokenizer(self.model_name, trust_remote_code=False)
            model = AutoModel.from_pretrained(self.model_name, dtype=torch.float32, trust_remote_code=False)
        if hasattr(model, "decoder") and hasattr(model, "encoder"):
            model = model.encoder
        depth = int(model.config.num_hidden_layers)
        layer = self._num_layers
        if layer is None:
            layer = min(LAYERS.get(Path(self.model_name).name, depth), depth)
        if not 0 <= layer <= depth:
            raise ConfigError(f"num_layers is {layer}; {self.model_name} has layers 0 to {depth}")
        stack = getattr(getattr(model, "encoder", None), "layer", None)
        if isinstance(stack, torch.nn.ModuleList):  # what comes above is not computed
            model.encoder.layer = stack[: max(layer, 1)]  # hidden states come from running one
        to_precision(model, self.precision)
        return model.eval().to(choose_device(self.device)), tokenizer, layer

    def _baseline_value(self) -> float:
        given = self._baseline
        value = float(given) if isinstance(given, int | float) else self._read_baseline(Path(str(given)))
        if not (math.isfinite(value) and value < 1):
            raise ConfigError(f"baseline must be a number below 1, got {value}")
        return value

    def _read_baseline(self, path: Path) -> float:
        column = {"precision": "P", "recall": "R", "f1": "F"}[self.output]
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = {int(row["LAYER"]): float(row[column]) for row in csv.DictReader(file)}
        except OSError as error:
            raise ConfigError(f"baseline: cannot read {path}: {error.strerror}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"baseline {path}: expected columns LAYER,P,R,F with numbers") from error
        if self.num_layers not in rows:
            raise ConfigError(f"baseline {path} has no layer {self.num_layers}, only {sorted(rows)}")
        return rows[self.num_layers]


def model_label(name: str) -> str:
    """Return a hub name as it is; a folder as its name with a hash of weights, config and tokenizer."""
    from suisei.encoders.weights import described_by, file_hash

    folder = Path(name)
    if not folder.is_dir():
        return name
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    named = [*(files or sorted(folder.glob("*.bin"))[:1]), *described_by(folder)]
    hashed = hashlib.sha256("".join(map(file_hash, named)).encode()).hexdigest()[:12]
    return f"{folder.resolve().name}-sha256-{hashed}"


def signed_label(name: str) -> str:
    """Return :func:`model_label`, of a hub name with the revision that is loaded: NAME@REVISION."""
    from transformers.utils import cached_file

    from suisei.encoders.hub_errors import hub_guard, no_bars

    if Path(name).is_dir():
        return model_label(name)
    with hub_guard(name), no_bars():  # the file lies in a folder that is called as the revision
        return f"{name}@{Path(cached_file(name, 'config.json')).parent.name[:12]}"
