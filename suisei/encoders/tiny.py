"""Small encoders built from a config, for a first run without any hub.

The text side is XLM-RoBERTa's architecture with a sentencepiece vocabulary trained on the run's own
captions; the image side is CLIP's ResNet, small. Both start from random weights.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from suisei.errors import ConfigError, DataError
from suisei.ranges import Rule, at_least, check_settings

SPECIAL_PIECES = ("<s>", "<pad>", "</s>", "<unk>")
"""In the order of their ids, which is XLM-RoBERTa's."""
MASK = "<mask>"
HEADS = 4
"""Attention heads of the tiny text encoder; its width is a multiple."""
TEXT_DROPOUT = 0.1
"""Dropout of the tiny text encoder in training."""
POSITIONS = 128
"""Longest caption of the tiny text encoder, in tokens."""
BLOCKS = (1, 1, 1, 1)
"""Residual blocks per stage of the tiny image encoder."""
TEXT: dict[str, Rule] = {
    "vocabulary": at_least(8),
    "width": at_least(1, 16_384),
    "layers": at_least(0, 200),
}
IMAGE: dict[str, Rule] = {
    "width": at_least(1, 4096),
    "image_size": at_least(0, 4096),
    "features": at_least(1, 16_384),
}


@dataclass
class TinyTextConfig:
    """Size of the tiny text encoder.

    Attributes:
        vocabulary: number of sentencepiece pieces at most; small data yields fewer.
        width: width d of the hidden states.
        layers: number of transformer layers; 0 leaves the embeddings alone.
    """

    vocabulary: int = 4000
    width: int = 192
    layers: int = 2

    def __post_init__(self) -> None:
        check_settings("model.text.tiny", self, TEXT)
        if self.width % HEADS:
            raise ConfigError(
                f"model.text.tiny.width is {self.width}; it must be a multiple of its {HEADS} attention heads"
            )


@dataclass
class TinyImageConfig:
    """Size of the tiny image encoder.

    Attributes:
        width: channels of the first stage; the last has eight times four as many.
        image_size: side of the square input in pixels; a multiple of 32, at least 64.
        features: width of the output.
    """

    width: int = 16
    image_size: int = 64
    features: int = 192

    def __post_init__(self) -> None:
        check_settings("model.image.tiny", self, IMAGE)
        # 32 would leave one pixel, and batch normalisation cannot train on a batch with one image of it.
        if self.image_size % 32 or self.image_size < 64:
            raise ConfigError(
                f"model.image.tiny.image_size is {self.image_size}; it must be a multiple of 32 and "
                "at least 64"
            )


def train_tokenizer(
    captions: Iterable[str], vocabulary: int, setting: str = "model.text.tiny.vocabulary"
) -> Any:
    """Train a sentencepiece unigram model on captions and return it as a Hugging Face tokenizer.

    Text is NFKC-normalised and lower-cased. The result depends on the captions alone.

    Args:
        captions: the captions.
        vocabulary: number of pieces at most.
        setting: the setting that holds it, for messages.

    Raises:
        DataError: there is no caption to train on.
        ConfigError: the vocabulary is too small to hold every character.
    """
    from tokenizers import normalizers
    from transformers import PreTrainedTokenizerFast, XLMRobertaTokenizer

    texts = sorted({unicodedata.normalize("NFKC", caption).lower() for caption in captions})
    if not texts:
        raise DataError("the tiny encoder trains its vocabulary on the training captions; there are none")
    pieces = _train_pieces(texts, vocabulary, setting)
    backend = XLMRobertaTokenizer(vocab=[*pieces, (MASK, 0.0)]).backend_tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    # Not XLM-RoBERTa's class: read back from a folder, that one puts its own normaliser in place of ours.
    start, padding, end, unknown = SPECIAL_PIECES
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=start,
        eos_token=end,
        sep_token=end,
        cls_token=start,
        unk_token=unknown,
        pad_token=padding,
        mask_token=MASK,
    )


def _train_pieces(texts: Sequence[str], vocabulary: int, setting: str) -> list[tuple[str, float]]:
    """Return the pieces of a unigram model of texts and their log probabilities, special pieces first.

    Raises:
        ConfigError: the vocabulary is too small to hold every character.
    """
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            normalization_rule_name="identity",
            num_threads=1,
            minloglevel=2,
            bos_id=0,
            pad_id=1,
            eos_id=2,
            unk_id=3,
        )
    except RuntimeError as error:
        needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if needed is None:
            raise ConfigError(f"{setting} is {vocabulary}; no vocabulary can be trained: {error}") from None
        raise ConfigError(
            f"{setting} is {vocabulary}; these captions have {int(needed[1]):,} characters and marks: raise "
            f"it to {needed[1]} or more"
        ) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]


def build_text_backbone(config: TinyTextConfig, vocabulary: int, positions: int = POSITIONS) -> Any:
    """Return an XLM-RoBERTa encoder of the given size with random weights.

    Args:
        config: width and number of layers.
        vocabulary: number of token ids.
        positions: longest caption in tokens.

    Raises:
        ConfigError: the width is no multiple of the attention heads.
    """
    from transformers import XLMRobertaConfig, XLMRobertaModel

    if config.width % HEADS:
        raise ConfigError(f"tiny text width {config.width} is not a multiple of its {HEADS} attention heads")
    return XLMRobertaModel(
        XLMRobertaConfig(
            vocab_size=vocabulary,
            hidden_size=config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=HEADS,
            intermediate_size=4 * config.width,
            hidden_dropout_prob=TEXT_DROPOUT,
            attention_probs_dropout_prob=TEXT_DROPOUT,
            max_position_embeddings=positions + 2,
            type_vocab_size=1,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
        ),
        add_pooling_layer=False,
    )


def image_architecture(config: TinyImageConfig) -> dict[str, Any]:
    """Return the open_clip configuration of the tiny image tower."""
    return {
        "embed_dim": config.features,
        "quick_gelu": False,
        "vision_cfg": {
            "layers": list(BLOCKS),
            "width": config.width,
            "image_size": config.image_size,
            "head_width": 64,
        },
    }
