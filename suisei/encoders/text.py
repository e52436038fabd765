"""The text encoder: any Hugging Face encoder, giving the hidden states of every layer.

Shape letters: T captions, L tokens (padded), S encoder states, d encoder width.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.cli import counted
from suisei.encoders.attention import Packing, Span
from suisei.encoders.bert import BertEncoder
from suisei.encoders.half_weights import waits_for_calls
from suisei.encoders.layers import cut_layers, depth_of, light
from suisei.encoders.locks import Lock
from suisei.encoders.pretrained import longest_input
from suisei.encoders.rules import BUILD_ERRORS, LARGEST_VOCABULARY, check_folder
from suisei.encoders.text_config import LAYERS, TextEncoderConfig
from suisei.encoders.text_parts import build_backbone, check_storable, fetch_parts, read_tokenizer
from suisei.encoders.tiny import build_text_backbone, train_tokenizer
from suisei.encoders.tokenizer import FolderTokenizer, no_panic
from suisei.encoders.used_rows import UsedRows, worth_leaving_out
from suisei.errors import ConfigError, ModelError, one_line
from suisei.ranges import Of, Rule, Word, at_least

logger = logging.getLogger(__name__)
MAX_TOKENS = 128
"""Captions are cut to this many tokens, special tokens included, or to what the encoder's positions allow."""
_ARCHITECTURE: dict[str, Rule] = {
    "backbone": Of(Mapping),
    "layers": Word(LAYERS),
    "max_tokens": at_least(3, LARGEST_VOCABULARY),
}
SMALL_ENCODER = 5_000_000
"""Below as many weights, embeddings left out, padding costs too little to encode a batch in parts."""
CALL_OVERHEAD, SPAN_OVERHEAD = 64, 200
CALL_OVERHEAD_CUDA = 2048
"""What one more call of an encoder costs, in tokens: short matrices, and launching its operations. Where
attention alone is padded, one more span of captions."""


class TextEncoder(nn.Module):
    """A Hugging Face encoder with its tokenizer.

    Attributes:
        width: width d of the hidden states.
        states: number of states S that ``forward`` returns.
        max_tokens: captions are cut to this many tokens, special tokens included.
    """

    def __init__(
        self, backbone: Any, tokenizer: Any, *, layers: str = "mix", max_tokens: int = MAX_TOKENS
    ) -> None:
        super().__init__()
        config = backbone.config
        if getattr(config, "is_encoder_decoder", False) or not hasattr(config, "num_hidden_layers"):
            raise ConfigError(
                f"text encoder {config.name_or_path or config.model_type!r} is not an encoder with hidden "
                "layers; use an encoder such as FacebookAI/xlm-roberta-base"
            )
        if getattr(backbone, "pooler", None) is not None:
            backbone.pooler = None  # its weights would never get a gradient
        self.backbone = backbone
        self.tokenizer = tokenizer
        self._lock = Lock()
        self.layers = layers
        self.width: int = config.hidden_size
        self.states = config.num_hidden_layers + 1 if layers == "mix" else 1
        self.max_tokens = min(max_tokens, longest_input(config, tokenizer))
        self._said = False

    @classmethod
    def create(cls, config: TextEncoderConfig, captions: Sequence[str]) -> TextEncoder:
        """Build the encoder that a config names.

        Args:
            config: which encoder.
            captions: the training captions, on which the tiny encoder trains its vocabulary.

        Raises:
            ConfigError: ``checkpointing`` of a model that does not support it.
            UnavailableError: the hub has no such model or cannot be reached.
        """
        if config.name == "tiny":
            tokenizer = train_tokenizer(captions, config.tiny.vocabulary)
            backbone = build_text_backbone(config.tiny, len(tokenizer))
        else:
            backbone, tokenizer = fetch_parts(config.name)
        if config.depth is not None:
            cut_layers(backbone, config.depth, config.name)
        if config.checkpointing and not config.frozen:
            if not backbone.supports_gradient_checkpointing:
                raise ConfigError(f"text.checkpointing: {config.name} does not support it; set it to false")
            enable = getattr(backbone, "activation_checkpointing_enable", None)  # its name from 5.2x on
            (enable or backbone.gradient_checkpointing_enable)()
        if not config.frozen and not config.checkpointing:
            backbone = light(backbone)
        encoder = cls(backbone, tokenizer, layers=config.states)
        if config.trained_layers is not None and not config.frozen:
            encoder._require_layers(config.name)
        if config.name != "tiny":
            check_storable(config.name, backbone)
        return encoder

    @classmethod
    def from_architecture(cls, architecture: Any, tokenizer: Any) -> TextEncoder:
        """Rebuild an encoder (without its weights) from :meth:`architecture` and its tokenizer.

        Encoders of BERT's kind are built without transformers and are for inference alone.

        Args:
            architecture: what was saved; nothing of it is trusted.
            tokenizer: from :func:`suisei.encoders.text_parts.read_tokenizer`, or the folder that it reads.

        Raises:
            ModelError: a setting that cannot be, or is not for a model folder to decide.
        """
        if isinstance(tokenizer, Path):
            tokenizer = read_tokenizer(tokenizer)
        found = check_folder(architecture, _ARCHITECTURE, "text_architecture", required=tuple(_ARCHITECTURE))
        try:
            backbone = build_backbone(found["backbone"])
            return cls(backbone, tokenizer, layers=found["layers"], max_tokens=found["max_tokens"])
        except BUILD_ERRORS as error:
            raise ModelError(f"cannot rebuild the text encoder: {one_line(error)}") from None

    def architecture(self) -> dict[str, Any]:
        """Return what :meth:`from_architecture` needs, as values that JSON can hold."""
        return {
            "backbone": self.backbone.config.to_diff_dict(),
            "layers": self.layers,
            "max_tokens": self.max_tokens,
        }

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids, and so of idf weights."""
        return int(max(len(self.tokenizer), self.backbone.config.vocab_size))

    @property
    def special_ids(self) -> list[int]:
        """Ids of the special tokens, which carry no idf weight."""
        return sorted(set(self.tokenizer.all_special_ids))

    def tokenize(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every caption, special tokens included, cut to ``max_tokens``."""
        return self._tokenized(captions, self.max_tokens)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Return how many tokens captions have, special tokens included: ``max_tokens`` + 1 where more."""
        return [len(ids) for ids in self._tokenized(captions, self.max_tokens + 1)]

    def _tokenized(self, captions: Sequence[str], max_tokens: int) -> list[list[int]]:
        if not captions:
            return []
        ids = self._ids(captions, max_tokens)
        if not self._said:
            self._warn_long(captions, ids)
        return ids

    def _warn_long(self, captions: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Say once that captions reach the last token that is read."""
        long = [row for row, own in enumerate(ids) if len(own) >= self.max_tokens]
        if long:
            self._said = True
            logger.warning(
                "%s %s the %d tokens that the text encoder reads, such as %r: what is beyond is not read; "
                "later ones are cut without another warning", counted(len(long), "caption"),
                "reaches" if len(long) == 1 else "reach", self.max_tokens, captions[long[0]][:60],
            )  # fmt: skip

    def _ids(self, captions: Sequence[str], max_tokens: int) -> list[list[int]]:
        if isinstance(self.tokenizer, FolderTokenizer):
            return self.tokenizer.encode(captions, max_tokens)
        with self._lock, no_panic():  # truncation and padding are the tokenizer's own state
            encoded = self.tokenizer(
                list(captions),
                truncation=True,
                max_length=max_tokens,
                add_special_tokens=True,
                return_attention_mask=False,
            )
        return [list(ids) for ids in encoded["input_ids"]]

    def pad(self, token_ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return ids and attention mask, int64 [T, L], padded on the right to the longest."""
        lengths = np.array([len(own) for own in token_ids], dtype=np.int64)
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        ids[mask] = np.fromiter(chain.from_iterable(token_ids), np.int64, int(lengths.sum()))
        return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))

    @property
    def pad_id(self) -> int:
        """Id of the padding token (0 where the tokenizer has none: padding is masked anyway)."""
        return int(self.tokenizer.pad_token_id or 0)

    def set_trainable(self, trainable: bool, *, layers: int | None = None) -> None:
        """Choose whether the weights get gradients.

        Args:
            trainable: whether any do.
            layers: how many layers do, counted from the last; None for all, embeddings included.
        """
        self.backbone.requires_grad_(trainable)
        if trainable and layers is not None:
            depths = self.layer_depths()
            for name, parameter in self.named_parameters():
                parameter.requires_grad_(depths[name] < min(layers, self._count))

    def _require_layers(self, name: str) -> None:
        """Refuse an encoder whose layers cannot be told by the names of its weights.

        Raises:
            ConfigError: so it is.
        """
        if not set(range(self._count)) <= set(self.layer_depths().values()):
            raise ConfigError(
                f"text.trained_layers: the names of {name}'s weights do not say which layer they are of; "
                "set it to null"
            )

    def keep_used(self, token_ids: Iterable[Sequence[int]]) -> None:
        """Hold the word vectors of some captions' tokens alone, the only ones that it can then encode.

        Training is the same without the others, and quicker (:mod:`suisei.encoders.used_rows`). Nothing
        happens where they are too few to matter, or the embedding is of a kind of its own.
        """
        self.keep_all()  # where it is asked for again, with other captions
        table, used = self._words(), {token for ids in token_ids for token in ids}
        if isinstance(table, nn.Embedding) and worth_leaving_out(table, len(used)):
            self.backbone.set_input_embeddings(UsedRows(table, {*used, self.pad_id}))

    def keep_all(self) -> None:
        """Hold all word vectors again, those of :meth:`keep_used` as they are by now."""
        if self.used_rows is not None:
            self.backbone.set_input_embeddings(self.used_rows.whole())

    @property
    def used_rows(self) -> UsedRows | None:
        """The word vectors that :meth:`keep_used` left."""
        table = self._words()
        return table if isinstance(table, UsedRows) else None

    def _words(self) -> nn.Module:
        words: nn.Module = self.backbone.get_input_embeddings()
        return words

    def keep_still(self, layers: int) -> None:
        """Leave evaluation mode to embeddings and layers below the last ``layers``: nothing is dropped."""
        for name, module in self.backbone.named_modules():
            if depth_of(name, self._count) >= min(layers, self._count):
                module.eval()

    @property
    def _count(self) -> int:
        return int(self.backbone.config.num_hidden_layers)

    @property
    def parted(self) -> bool:
        """Whether lower layers can be asked for (:meth:`below`), and the others of what they say."""
        return isinstance(self.backbone, BertEncoder) and self.layers == "last"

    def below(self, ids: Tensor, mask: Tensor, trained: int) -> Tensor:
        """Return what the layers below the last ``trained`` ones say of int64 [T, L], [T, L, d]."""
        states: Tensor = self.backbone.below(ids, mask, min(trained, self._count))
        return states

    def in_spans(
        self,
        ids: Tensor,
        mask: Tensor,
        spans: Sequence[Span],
        below: Tensor | None = None,
        trained: int = 0,
    ) -> list[list[Tensor]]:
        """Encode captions that are to be learned from, of which those of a span are padded to its width.

        Encoders of BERT's kind take all tokens at once, without padding, but on a GPU, for which a few more
        calls cost more than padding.

        Args:
            ids: int64 [T, L].
            mask: of the same shape.
            spans: parts of the captions, in order.
            below: what :meth:`below` says of the captions' tokens, one caption after the other, [N, d]; None
                computes it. Where all states are read there is none.
            trained: of how many layers, counted from the last.

        Returns:
            Of every span S hidden states, [captions, width, d]; what stands at padding means nothing.
        """
        if not isinstance(self.backbone, BertEncoder) or (waits_for_calls(ids) and below is None):
            return [self(ids[start:end, :width], mask[start:end, :width]) for start, end, width in spans]
        packing = Packing(mask, spans)
        if below is None:
            states = self.backbone.packed(ids, packing)
        else:
            states = self.backbone.above(below, packing, min(trained, self._count))
        kept = states if self.layers == "mix" else states[-1:]
        return [list(own) for own in zip(*map(packing.pad, kept), strict=True)]

    def lower(self, depth: int | None) -> TextEncoder:
        """Return an encoder of the same embeddings and first layers, which are not copied.

        Args:
            depth: how many layers; None for all.

        Raises:
            ModelError: it is not of BERT's kind, or has fewer layers.
        """
        depth = self._count if depth is None else depth
        if not isinstance(self.backbone, BertEncoder) or depth > self._count:
            raise ModelError(f"its first {depth} layers are asked for, and the text encoder has none such")
        part = TextEncoder(
            self.backbone.lower(depth), self.tokenizer, layers="last", max_tokens=self.max_tokens
        )
        part._lock = self._lock
        return part

    def shallow(self) -> TextEncoder:
        """Return an encoder that fails where this one would, since its layers are alike: their first."""
        return self.lower(min(1, self._count)) if isinstance(self.backbone, BertEncoder) else self

    def call_overhead(self) -> float | None:
        """Return what one more span costs in training, in tokens; None where spans are not worth it."""
        names = (name for name, _ in self.backbone.named_parameters())
        sizes = (0 if "embed" in name else self.backbone.get_parameter(name).numel() for name in names)
        if sum(sizes) < SMALL_ENCODER:
            return None
        if torch.cuda.is_available():
            return CALL_OVERHEAD_CUDA
        return SPAN_OVERHEAD if isinstance(self.backbone, BertEncoder) else CALL_OVERHEAD

    def forward(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        """Encode int64 [T, L] to S hidden states of shape [T, L, d], embedding output first."""
        output = self.backbone(input_ids=ids, attention_mask=mask, output_hidden_states=self.layers == "mix")
        if self.layers == "mix":
            return list(output.hidden_states) or [output.last_hidden_state]  # no layers, no list
        return [output.last_hidden_state]

    def passing(
        self, ids: Tensor, mask: Tensor, depths: Collection[int]
    ) -> tuple[list[Tensor], dict[int, Tensor]]:
        """Return what ``forward`` does, and the states [T, L, d] after some numbers of layers.

        Args:
            ids: int64 [T, L].
            mask: of the same shape.
            depths: the numbers, 1 to that of all layers. An encoder that is not of BERT's kind takes none.
        """
        if not depths:
            return self(ids, mask), {}
        if self.layers == "mix":
            states = self(ids, mask)
            return states, {depth: states[depth] for depth in depths}
        last, found = self.backbone.passing(ids, mask, depths)
        return [last], found

    def layer_depths(self) -> dict[str, int]:
        """Return {parameter name: depth from the top}: 0 for the last layer, the embeddings deepest.

        Used by layerwise learning-rate decay.
        """
        return {name: depth_of(name, self._count) for name, _ in self.named_parameters()}
