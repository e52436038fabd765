"""The cosine of sentence vectors: what a text encoder itself says of a candidate and its references.

Shape letters: T captions, L tokens (padded), d width of the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.encoders.locks import Lock
from suisei.encoders.precision_words import PRECISION
from suisei.errors import UnavailableError
from suisei.metrics.base import Metric
from suisei.metrics.bertscore import signed_label
from suisei.progress import progress_bar
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from torch import Tensor

    from suisei.encoders.text import TextEncoder

REFERENCES = ("mean", "max")
HINT = "cosine:intfloat/multilingual-e5-small, a folder, or the folder of a SuiSei model"


class Cosine(Metric):
    """Cosine between the candidate's vector and each reference's, averaged over references, in [-1, 1].

    A caption's vector is the mean of its tokens' last hidden states, special tokens included, as in sentence
    encoders such as E5, as many as the encoder reads, or the SuiSei model does. No encoder is trained here.

    Args:
        model: a Hugging Face encoder, a folder with one, or a SuiSei model folder, for its text encoder.
        references: "mean" over references, or "max", the nearest.
        prefix: put before every caption, such as "query: ".
        device: a torch device, or "auto".
        precision: what the encoder computes in, see :func:`suisei.encoders.precision.choose_precision`.
    """

    name = "cosine"
    needs = frozenset({"references"})

    def __init__(
        self,
        model: str | None = None,
        *,
        references: str = "mean",
        prefix: str = "",
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        if model is None:
            raise UnavailableError(f"metric 'cosine' needs a text encoder: {HINT}")
        check("references", references, Word(REFERENCES))
        check("precision", precision, PRECISION)
        self.model_name = str(model)
        self.references, self.prefix, self.device = references, prefix, device
        self._precision = precision
        self._lock = Lock()
        self._encoder: TextEncoder | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None}  # an encoder in use cannot be pickled; it is loaded again

    @property
    def precision(self) -> str:
        """What the encoder computes in on its device."""
        from suisei.encoders.precision import choose_device, choose_precision

        return choose_precision(self._precision, choose_device(self.device))

    def settings(self) -> dict[str, str]:
        """Return encoder, pooling, how references are taken together, prefix and precision."""
        own = {"model": signed_label(self.model_name), "pool": "mean", "ref": self.references}
        if self.prefix:
            own["prefix"] = repr(self.prefix)  # its spaces count: they change the vectors
        return {**own, "dtype": self.precision}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        captions = dict.fromkeys(text for s in samples for text in (s.candidate, *s.references))
        rows = {text: row for row, text in enumerate(captions)}
        vectors = self._embed(list(captions), progress).double().numpy()
        cosines = [vectors[[rows[r] for r in s.references]] @ vectors[rows[s.candidate]] for s in samples]
        mean = self.references == "mean"
        return np.array([own.mean() if mean else own.max() for own in cosines], dtype=np.float64)

    def _embed(self, captions: Sequence[str], progress: bool) -> Tensor:
        """Return unit vectors float32 [T, d], encoding the longest captions first."""
        import torch

        from suisei.encoders.batch_sizes import tokens_per_batch
        from suisei.encoders.precision import choose_device, matrix_products
        from suisei.models.features import token_batches

        device = choose_device(self.device)
        encoder = self._loaded(device)
        ids = encoder.tokenize([self.prefix + caption for caption in captions])
        vectors = torch.empty(len(ids), encoder.width)
        with progress_bar("cosine", len(ids), shown=progress) as advance, torch.inference_mode():
            for rows in token_batches([len(own) for own in ids], tokens_per_batch(encoder.width, device)):
                batch, mask = (part.to(device) for part in encoder.pad([ids[row] for row in rows]))
                with matrix_products(self.precision):
                    states = encoder(batch, mask)[-1].float()
                summed = (states * mask[..., None]).sum(
                    dim=1
                )  # its length does not matter, only its direction
                vectors[rows] = torch.nn.functional.normalize(summed, dim=-1).cpu()
                advance(len(rows))
        return vectors

    def _loaded(self, device: str) -> TextEncoder:
        """Return the encoder, loaded on first use."""
        from suisei.encoders.precision import to_precision

        with self._lock:
            if self._encoder is None:
                encoder = _text_encoder(self.model_name)
                to_precision(encoder.backbone, self.precision)
                self._encoder = encoder.eval().requires_grad_(False).to(device)
            return self._encoder


def _text_encoder(name: str) -> TextEncoder:
    from suisei.encoders.pretrained import longest_input
    from suisei.encoders.text import TextEncoder
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.models.folder import is_model_folder

    if is_model_folder(name):
        from suisei.metrics.extras import check_names
        from suisei.models.folder import load_model

        return load_model(name, check_names).regressor.text
    encoder = TextEncoder.create(TextEncoderConfig(name, layers="last", frozen=True), [])
    encoder.max_tokens = longest_input(encoder.backbone.config, encoder.tokenizer)
    return encoder
