"""Captioners of Hugging Face behind the same interface: vision-encoder-decoders and BLIP, by folder or name.

Weights are read from safetensors alone, and no code of a model's own is run. Shape letters: B images, P
places, d width of the memory, K captions of an image, L tokens, V pieces, N rows of a step.
"""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suisei.captioning.caption_search import DecodingState
from suisei.captioning.captioner_interface import CaptionModel
from suisei.captioning.hf_checks import (
    check_ids,
    check_processor,
    check_tokenizer,
    check_weights,
    longest_caption,
)
from suisei.data.images import read_image
from suisei.data.sample import LANGUAGES
from suisei.data.writers import replacing_folder
from suisei.encoders.hub_errors import explain_hub_error, hub_guard, quiet_transformers
from suisei.encoders.pretrained import check_config_file, check_tokenizer_file, read_settings
from suisei.encoders.text_parts import load_tokenizer
from suisei.errors import ModelError, SuiseiError, UnavailableError, one_line

KINDS = ("vision-encoder-decoder", "blip")
"""What model_type may be."""


class HfCaptioner(CaptionModel):
    """A captioner of Hugging Face. Which language it writes is not known: it is what the caller says.

    Args:
        network: the model.
        tokenizer: its tokenizer.
        processor: its image processor.
        start_id: what captions start from.
        end_id: their end.
        pad_id: padding in the network; here padding is a token beyond the vocabulary where that is the end.
    """

    languages = LANGUAGES[::-1]
    pools_beams = True

    def __init__(
        self, network: Any, tokenizer: Any, processor: Any, start_id: int, end_id: int, pad_id: int | None
    ) -> None:
        super().__init__()
        self.network = network
        self.tokenizer = tokenizer
        self.processor = processor
        self.start_id, self.end_id = start_id, end_id
        self.vocabulary = int(self.text_decoder.config.vocab_size)
        self.longest = longest_caption(self.text_decoder.config)
        self.pad_id = self.vocabulary if pad_id is None or pad_id == end_id else pad_id
        never = {start_id, self.pad_id} - {end_id, self.vocabulary}
        self.banned: Tensor
        self.register_buffer("banned", torch.tensor(sorted(never), dtype=torch.long), persistent=False)
        self.tower_is_frozen = True
        self.let_tower_learn(False)

    def let_tower_learn(self, learns: bool) -> None:
        """Let the image encoder learn, or freeze it."""
        self.tower_is_frozen = not learns
        self.image_encoder.requires_grad_(learns)

    def train(self, mode: bool = True) -> HfCaptioner:
        """Set training; a frozen image encoder stays as it scores."""
        super().train(mode)
        if self.tower_is_frozen:
            self.image_encoder.eval()
        return self

    @property
    @abstractmethod
    def image_encoder(self) -> nn.Module:
        """The part that looks at images."""

    @property
    @abstractmethod
    def text_decoder(self) -> Any:
        """The part that writes."""

    def read(self, images: Sequence[Any]) -> Tensor:
        """Return pixels, float32 [B, 3, H, W], as the model's own processor makes them."""

        def prepared(image: Any) -> Tensor:
            pixels: Tensor = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
            return pixels

        return torch.stack([read_image(image, prepared) for image in images])

    def grid(self, pixels: Tensor) -> Tensor:
        """Return the states of the image encoder, [B, P, c]."""
        with torch.no_grad() if self.tower_is_frozen else nullcontext():
            states: Tensor = self.image_encoder(pixel_values=pixels).last_hidden_state
        return states

    def memory(self, grid: Tensor) -> Tensor:
        """Return what the decoder looks at, [B, P, d]."""
        return grid

    def first(self, rows: int, language: str | None = None) -> Tensor:
        """Return the start token, int64 [rows]."""
        self.language_or_own(language)
        return torch.full((rows,), self.start_id, device=self.device)

    def begin(self, memory: Tensor, language: str | None = None) -> HfState:
        """Return the state before the first token."""
        self.language_or_own(language)
        return HfState(self, memory)

    def logits(self, memory: Tensor, tokens: Tensor, language: str | None = None) -> Tensor:
        """Return the logits of every token given those before it, [B, K, L, V]."""
        images, captions, _ = tokens.shape
        start = self.first(images * captions, language).view(images, captions, 1)
        shown = torch.cat([start, tokens[..., :-1]], dim=-1).flatten(0, 1)
        shown = shown.masked_fill(shown == self.pad_id, self.end_id)
        found = self.text_decoder(
            input_ids=shown,
            encoder_hidden_states=memory.repeat_interleave(captions, dim=0),
            use_cache=False,
        ).logits
        return found.index_fill(-1, self.banned, -torch.inf).unflatten(0, (images, captions))

    def texts(self, tokens: Tensor) -> list[list[str]]:
        """Return captions of tokens, [B][K]."""
        return [[self._text(ids) for ids in own] for own in tokens.tolist()]

    def _text(self, ids: list[int]) -> str:
        ends = [place for place, id_ in enumerate(ids) if id_ in (self.end_id, self.pad_id)]
        text: str = self.tokenizer.decode(ids[: ends[0]] if ends else ids, skip_special_tokens=True)
        return " ".join(text.split())

    def tokens_of(self, captions: Sequence[str], max_length: int | None = None) -> Tensor:
        """Return the tokens of captions, [N, L]."""
        if not captions:
            return torch.zeros(0, 1, dtype=torch.long)
        encoded = self.tokenizer(list(captions), add_special_tokens=False)["input_ids"]
        longest = min(max_length or self.longest or sys.maxsize, self.longest or sys.maxsize)
        known = [[id_ for id_ in own if id_ < self.vocabulary] for own in encoded]
        ids = [torch.tensor([*own, self.end_id][:longest]) for own in known]
        return nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=self.pad_id)

    def save(self, folder: Path | str) -> None:
        """Write Hugging Face's own folder, with safetensors; one that is there is replaced."""
        with quiet_transformers(), replacing_folder(Path(folder)) as new:
            for part in (self.network, self.tokenizer, self.processor):
                part.save_pretrained(new)


class EncoderDecoderCaptioner(HfCaptioner):
    """A ``VisionEncoderDecoderModel``, such as ViT with GPT-2."""

    @property
    def image_encoder(self) -> nn.Module:
        """The part that looks at images."""
        encoder: nn.Module = self.network.encoder
        return encoder

    @property
    def text_decoder(self) -> Any:
        """The part that writes."""
        return self.network.decoder

    def memory(self, grid: Tensor) -> Tensor:
        """Return what the decoder looks at: the states, projected where the widths differ."""
        project = getattr(self.network, "enc_to_dec_proj", None)
        return grid if project is None else project(grid)


class BlipCaptioner(HfCaptioner):
    """A ``BlipForConditionalGeneration``."""

    @property
    def image_encoder(self) -> nn.Module:
        """The part that looks at images."""
        encoder: nn.Module = self.network.vision_model
        return encoder

    @property
    def text_decoder(self) -> Any:
        """The part that writes."""
        return self.network.text_decoder


class HfState(DecodingState):
    """The rows of a decoding with the cache of Hugging Face's decoder.

    Args:
        model: the captioner.
        memory: of the images, [B, P, d]; a row each.
    """

    def __init__(self, model: HfCaptioner, memory: Tensor) -> None:
        self._model = model
        self._memory = memory
        self._cache: Any = None
        known = inspect.signature(model.text_decoder.forward).parameters
        self._named = "cache" if "cache" in known else "past_key_values"  # in later and earlier transformers

    def step(self, tokens: Tensor) -> Tensor:
        """Add a token to each row and return the logits of the next, float32 [N, V]."""
        found = self._model.text_decoder(
            input_ids=tokens[:, None],
            encoder_hidden_states=self._memory,
            use_cache=True,
            **{self._named: self._cache},
        )
        self._cache = getattr(found, self._named)
        return found.logits[:, -1].float().index_fill(-1, self._model.banned, -torch.inf)

    def select(self, rows: Tensor) -> None:
        """Keep rows, in this order."""
        self._memory = self._memory[rows]
        if self._cache is not None:
            self._cache.batch_select_indices(rows)


def load_hf_captioner(name: str) -> HfCaptioner:
    """Load a captioner of Hugging Face by folder or name, ready to write.

    Raises:
        ModelError: a folder of another kind of model, or a damaged one.
        UnavailableError: it is neither on disk nor to be had from the hub.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoImageProcessor

    local = Path(name).is_dir()
    kept: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    if local:
        _check_folder(Path(name))
    try:
        with quiet_transformers(), nullcontext() if local else hub_guard(name):  # a local folder asks no hub
            config = AutoConfig.from_pretrained(name, **kept)
            network = _network(name, config.model_type, local)
            tokenizer = load_tokenizer(name, **kept)
            processor = AutoImageProcessor.from_pretrained(name, **kept)
    except SuiseiError:
        raise
    except (OSError, ValueError, StrictDataclassError) as error:
        raise explain_hub_error(name, error) from error
    except Exception as error:  # noqa: BLE001 - damaged weights raise errors of the reader's own
        raise ModelError(f"{name}: cannot be loaded: {one_line(error)}") from None
    try:
        return wrapped(network, tokenizer, processor).eval()
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None


def wrapped(network: Any, tokenizer: Any, processor: Any) -> HfCaptioner:
    """Return a captioner around a model of Hugging Face, its tokenizer and its image processor.

    Raises:
        ModelError: the model does not say where captions start and end, or its parts do not go together.
    """
    kind = BlipCaptioner if network.config.model_type == "blip" else EncoderDecoderCaptioner
    start, end, pad = _special_ids(network)
    decoder = network.text_decoder if kind is BlipCaptioner else network.decoder
    check_ids(int(decoder.config.vocab_size), start, end, pad)
    model = kind(network, tokenizer, processor, start, end, pad)
    check_tokenizer(tokenizer, model.vocabulary, model.end_id)
    check_processor(model, model.image_encoder)
    return model


def _special_ids(network: Any) -> tuple[Any, Any, Any]:
    """Return where captions start and end, and padding, as the configs of a model say it."""
    if network.config.model_type == "blip":
        text = network.config.text_config
        return text.bos_token_id, text.sep_token_id, text.pad_token_id
    ids = {}
    for role, names in (
        ("start", ("decoder_start_token_id", "bos_token_id")),
        ("end", ("eos_token_id",)),
        ("pad", ("pad_token_id",)),
    ):
        places = (network.generation_config, network.config, network.config.decoder)
        found = [getattr(place, name, None) for name in names for place in places]
        first = next((value for value in found if value is not None), None)
        if isinstance(first, list) and first and first.count(first[0]) == len(first):
            first = first[0]
        ids[role] = first
    return ids["start"], ids["end"], ids["pad"]


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is no captioner's, or that asks for more than to be read.

    Raises:
        ModelError: it is.
    """
    kind = read_settings(folder / "config.json").get("model_type")
    if kind not in KINDS:
        raise ModelError(
            f"{folder}: not the folder of a captioner: neither suisei's nor of Hugging Face's kinds "
            f"({', '.join(KINDS)})"
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder}: no .safetensors; weights are read from nothing else: convert them first")
    check_config_file(folder)
    check_tokenizer_file(folder)


def _network(name: str, kind: str, local: bool) -> Any:
    from transformers import BlipForConditionalGeneration, VisionEncoderDecoderModel

    kinds = {"vision-encoder-decoder": VisionEncoderDecoderModel, "blip": BlipForConditionalGeneration}
    if kind not in kinds:
        raise UnavailableError(
            f"model {name!r} is of the kind {kind!r}; captioners are of the kinds {', '.join(KINDS)}"
        )
    network, info = kinds[kind].from_pretrained(
        name, dtype=torch.float32, local_files_only=local, use_safetensors=True,
        output_loading_info=True, ignore_mismatched_sizes=True,
    )  # fmt: skip
    check_weights(name, info)
    return network
