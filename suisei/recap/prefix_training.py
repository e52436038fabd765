"""Training of ClipCap's mapper by prefix captioning (Mokady et al., 2021): a prefix, then the caption.

Shape letters: B captions, T tokens (padded), P positions of the prefix, d width of the language model.
"""

# Annotations are not postponed here: jsonargparse resolves those of the settings.
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.encoders.seeded import seeded
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.errors import ConfigError
from suisei.models.latent import MAX_TOKENS
from suisei.models.prefix_mapper import PUBLISHED_HEADS, MapperShape, PrefixMapper
from suisei.ranges import SWITCH, Of, Rule, at_least, check_settings
from suisei.recap.caption_batches import LatentBatch
from suisei.recap.image_towers import TowerConfig
from suisei.recap.language_models import (
    TinyLanguageModel,
    end_id,
    load_language_model,
    new_language_model,
    plain_tokenizer,
)
from suisei.training.losses import require_finite
from suisei.training.step_training import STEPS, StepTraining

IGNORED = -100
"""A label that counts for nothing, as PyTorch's cross-entropy has it."""
RULES: dict[str, Rule] = {
    "language_model": Of(str, null=True),
    "train_language_model": SWITCH,
    "prefix": at_least(1, 1000),
    "spread": at_least(1, 1000),
    "layers": at_least(1, 200),
    "heads": at_least(1, 1024),
    **STEPS,
}


class PrefixTraining(StepTraining):
    """Trains a mapper so that a language model, given an image's prefix, goes on with its caption.

    Args:
        image: the image tower, which stays frozen.
        language_model: a causal language model on the hub or a folder; null for a small new one.
        tiny: size of a new one.
        train_language_model: whether the language model is trained with the mapper; a new one must be.
        prefix: positions P of the prefix.
        spread: positions that the image feature is spread over inside of the mapper.
        layers: layers of the mapper.
        heads: attention heads of the mapper; its published checkpoints have 8.
        learning_rate: of AdamW; ClipCap's.
        weight_decay: of AdamW.
        warmup_steps: steps over which the rate grows from zero.
        cosine_steps: steps after which the rate has fallen to zero on a cosine; null keeps it.
    """

    def __init__(
        self,
        image: TowerConfig = TowerConfig(),  # noqa: B008 - read, never changed
        language_model: str | None = "gpt2",
        tiny: TinyLanguageModel = TinyLanguageModel(),  # noqa: B008
        train_language_model: bool = False,
        prefix: int = 10,
        spread: int = 10,
        layers: int = 8,
        heads: int = PUBLISHED_HEADS,
        learning_rate: float = 2e-5,
        weight_decay: float = 0.01,
        warmup_steps: int = 5000,
        cosine_steps: int | None = None,
    ) -> None:
        check_settings("model", locals(), RULES)
        if language_model is None and not train_language_model:
            raise ConfigError(
                "model.language_model is null, and a new language model starts from random weights: set "
                "model.train_language_model to true, or name one"
            )
        super().__init__()
        self.image, self.language_model, self.tiny = image, language_model, tiny
        self.train_language_model = train_language_model
        self.sizes = {"prefix": prefix, "spread": spread, "layers": layers, "heads": heads}
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.warmup_steps, self.cosine_steps = warmup_steps, cosine_steps

    def build(self, captions: Sequence[str], features: int, seed: int) -> None:
        """Make mapper and language model.

        Args:
            captions: of the training part, from which a new language model has its vocabulary.
            features: width of the image features.
            seed: of new weights.

        Raises:
            ConfigError: sizes that do not go together.
        """
        self.tokenizer: Any = None  # of transformers, to be written beside a new language model
        if self.language_model is None:
            self.captioner, self.tokenizer = new_language_model(captions, self.tiny, seed)
            self.plain = plain_tokenizer(self.tokenizer, "the new language model")
        else:
            self.captioner, self.plain = load_language_model(self.language_model)
        self.end = end_id(self.plain, self.captioner)
        if self.sizes["prefix"] > self._positions() - 2:
            raise ConfigError(
                f"model.prefix is {self.sizes['prefix']}; the language model has {self._positions()} "
                "positions, of which a caption needs 2 or more: lower it"
                + ("" if self.language_model else ", or raise model.tiny.positions")
            )
        self.captioner.requires_grad_(self.train_language_model)
        width = int(self.captioner.get_input_embeddings().weight.shape[1])
        if width % self.sizes["heads"]:
            raise ConfigError(
                f"model.heads is {self.sizes['heads']}; it must divide {width}, the language model's width"
            )
        with seeded(seed):
            self.mapper = PrefixMapper(MapperShape(features, width, hidden=2 * width, **self.sizes))
        self.note_frozen()

    @property
    def tokenize(self) -> Callable[[Sequence[str]], list[list[int]]]:
        """What turns captions into token ids, cut to what the language model has positions for."""
        return CaptionTokens(self.plain, self.longest)

    def _positions(self) -> int:
        return int(getattr(self.captioner.config, "max_position_embeddings", 0) or 1024)

    @property
    def longest(self) -> int:
        """Most tokens of a caption that are read: those that the language model has positions for."""
        return min(MAX_TOKENS, self._positions() - self.sizes["prefix"] - 1)

    def caption_loss(self, prefix: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the cross-entropy of captions and their ends after prefixes, mean over tokens.

        Args:
            prefix: float [B, P, d].
            ids: int64 [B, T].
            mask: bool [B, T].
        """
        count, lead = len(ids), prefix.shape[1]
        embedded = self.captioner.get_input_embeddings()(ids)
        states = torch.cat([prefix.to(embedded.dtype), embedded], dim=1)
        seen = torch.cat([mask.new_ones(count, lead), mask], dim=1)
        logits = self.captioner(inputs_embeds=states, attention_mask=seen.long(), use_cache=False).logits
        labels = torch.cat([ids.masked_fill(~mask, IGNORED), ids.new_full((count, 1), IGNORED)], dim=1)
        labels[torch.arange(count, device=ids.device), mask.sum(dim=1)] = self.end
        return F.cross_entropy(
            logits[:, lead - 1 :].flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED
        )

    def prefixes(self, features: Tensor) -> Tensor:
        """Return the prefixes of image features float [B, f], float [B, P, d]."""
        if self.image.normalise:
            features = F.normalize(features, dim=-1)
        mapped: Tensor = self.mapper(features)
        return mapped

    def on_fit_start(self) -> None:
        """Drop nothing of a language model that keeps its weights."""
        self.captioner.train(self.train_language_model)

    def training_step(self, batch: LatentBatch, batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        loss = self.caption_loss(self.prefixes(batch.features), batch.ids, batch.mask)
        require_finite(loss, self, f"step {self.global_step + 1}", "model.learning_rate")
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch.ids))
        return loss

    def validation_step(self, batch: LatentBatch, batch_idx: int) -> None:
        """Log the loss, and that with another image's prefix: the same where images say nothing.

        Each is the mean over the tokens of all batches, so that it does not depend on their size.
        """
        prefix = self.prefixes(batch.features)
        count = len(batch.ids)
        tokens = count + int(batch.mask.sum())  # every caption has an end
        self.log("val_loss", self.caption_loss(prefix, batch.ids, batch.mask), batch_size=tokens)
        if count > 1:  # the last batch may hold one image, beside which there is no other
            other = self.caption_loss(prefix.roll(1, dims=0), batch.ids, batch.mask)
            self.log("val_other_image_loss", other, batch_size=tokens)


class CaptionTokens:
    """Captions to token ids.

    Args:
        tokenizer: as scoring reads it.
        longest: captions are cut to so many tokens.
    """

    def __init__(self, tokenizer: FolderTokenizer, longest: int) -> None:
        self.tokenizer, self.longest = tokenizer, longest

    def __call__(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the ids of every caption."""
        return self.tokenizer.encode(captions, self.longest)
