"""DualEncoder: images and captions in one space, with any open_clip model.

Shape letters: N items, U unique items, L tokens, d width of the shared space.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.data.images import check_unchanged, content_keys
from suisei.encoders.batch_sizes import images_per_batch
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.dual_parts import check_dual_folder, model_of_folder, tokenizer_of_folder
from suisei.encoders.dual_weights import load_weights
from suisei.encoders.hub_errors import hub_guard, no_hub
from suisei.encoders.locks import Lock
from suisei.encoders.memory import FeatureMemory
from suisei.encoders.precision import PRECISIONS, choose_device, choose_precision, matrix_products, of_images
from suisei.errors import ConfigError
from suisei.progress import progress_bar

if TYPE_CHECKING:
    from PIL.Image import Image

    from suisei.data.image_bytes import ImageBytes

_JAPANESE_PROBE = "犬が公園で走っている写真"


class DualEncoder:
    """A CLIP-like pair with its tokenizer and its image preprocessing.

    Args:
        model: an open_clip model.
        tokenizer: texts -> int64 [N, L], padded; open_clip's for the model.
        transform: PIL image -> float32 [3, s, s]; open_clip's for the model.
        name: the model's name, for signatures.
        weights: pretraining tag, checkpoint hash or seed, for signatures.
        precision: "fp32", "tf32", "bf16" or "fp16"; the lower ones run under autocast. "int8" is fp32 here.
        device: a torch device.
        architecture: open_clip's description of the model, where it is to be saved.

    Attributes:
        memory: where features are kept from call to call; None, as it must be while the weights change.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Callable[[list[str]], Tensor],
        transform: Callable[[Any], Tensor],
        *,
        name: str,
        weights: str,
        precision: str = "fp32",
        device: str = "cpu",
        architecture: dict[str, Any] | None = None,
    ) -> None:
        if precision not in PRECISIONS:
            raise ConfigError(f"precision is {precision!r}; expected auto, {', '.join(PRECISIONS)}")
        self.memory: FeatureMemory | None = None
        self.compiled = False
        self.device = torch.device(device)
        self.model: Any = model.eval().to(self.device)
        self.tokenizer = tokenizer
        self._lock = Lock()
        self.transform = transform
        self.name = name
        self.weights = weights
        self.precision = of_images(precision)
        self.architecture = architecture

    def settings(self) -> dict[str, str]:
        """Return what decides the features, for a metric's signature."""
        given = getattr(self.model.visual, "preprocess_cfg", {})
        steps = [str(given.get("interpolation")), str(given.get("resize_mode")), str(given.get("size"))]
        return {
            "model": self.name,
            "weights": self.weights,
            "preprocess": "-".join(steps).replace(" ", ""),
            "precision": self.precision + ("-compiled" if self.compiled else ""),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.compiled:  # what was compiled is not pickled
            self.compile()

    def tokenize(self, texts: Sequence[str], **options: Any) -> Tensor:
        """Return token ids int64 [N, L], padded; threads take turns, for a tokenizer may keep its options."""
        with self._lock:
            return self.tokenizer(list(texts), **options)

    def compile(self) -> None:
        """Compile both towers: slow at first, then faster."""
        self.compiled = True
        text = getattr(self.model, "text", None) or self.model.transformer
        for tower in (self.model.visual, text):
            tower.compile(dynamic=True)

    @property
    def reads_japanese(self) -> bool:
        """Whether the tokenizer knows Japanese, rather than falling back to bytes or unknowns.

        OpenAI's vocabulary was built on English; it spends about two tokens on every Japanese
        character and its model has seen next to none of them.
        """
        from open_clip import SimpleTokenizer

        if isinstance(self.tokenizer, SimpleTokenizer):
            return False
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            return True  # a tokenizer of the caller's own
        with self._lock:
            pieces = inner.tokenize(_JAPANESE_PROBE)
        return len(pieces) <= len(_JAPANESE_PROBE) and inner.unk_token not in pieces

    def encode_images(
        self,
        sources: Sequence[str | Path | Image | ImageBytes],
        *,
        batch_size: int = 64,
        progress: bool = False,
    ) -> np.ndarray:
        """Encode images, each different one once.

        Args:
            sources: N paths or PIL images.
            batch_size: images per forward pass at most; never changes a feature beyond rounding.
            progress: whether to show a progress bar on standard error.

        Returns:
            float32 [N, d], not normalised, in input order.

        Raises:
            DataError: an image cannot be read.
        """
        keys = content_keys(sources)
        first: dict[str, int] = {}
        for position, key in enumerate(keys):
            first.setdefault(key, position)

        def encode(some: list[tuple[str, Any]]) -> Tensor:
            size = min(batch_size, images_per_batch(self.model.visual, self.device.type))
            own = [source for _, source in some]
            pixels = decoded_batches(own, self.transform, size)
            with self._computing(), progress_bar("encoding images", len(some), shown=progress) as advance:
                batches = []
                for batch in pixels:
                    batches.append(self._forward(self.model.encode_image, batch))
                    advance(len(batch))
            check_unchanged([key for key, _ in some], own)
            return torch.cat(batches)

        unique = [(key, sources[position]) for key, position in first.items()]
        rows = {key: row for row, key in enumerate(first)}
        return self._look_up("images", list(first), unique, encode)[[rows[key] for key in keys]]

    def encode_texts(
        self, texts: Sequence[str], *, prompt: str = "", batch_size: int = 256, progress: bool = False
    ) -> np.ndarray:
        """Encode texts, each different one once, longest first.

        A text over the context length is cut, and its last token is then the end of text, as in
        OpenAI's ``clip.tokenize(..., truncate=True)``.

        Args:
            texts: N texts.
            prompt: put before every text as it is, so it ends with a space where one is wanted.
            batch_size: texts per forward pass; never changes a feature beyond rounding.
            progress: whether to show a progress bar on standard error.

        Returns:
            float32 [N, d], not normalised, in input order.
        """
        unique = list(dict.fromkeys(texts))

        def encode(some: list[str]) -> Tensor:
            tokens = self.tokenize([prompt + text for text in some])
            order = torch.argsort(_lengths(tokens), descending=True, stable=True)
            batches = []
            with self._computing(), progress_bar("encoding captions", len(some), shown=progress) as advance:
                for rows in order.split(batch_size):
                    batches.append(self._forward(self._encode_tokens, tokens[rows]))
                    advance(len(rows))
            return torch.cat(batches)[torch.argsort(order)]

        features = self._look_up("texts", [prompt + text for text in unique], unique, encode)
        position = {text: row for row, text in enumerate(unique)}
        return features[[position[text] for text in texts]]

    def _look_up(
        self, kind: str, keys: list[str], items: list[Any], encode: Callable[..., Tensor]
    ) -> np.ndarray:
        """Return float32 [len(items), d] of different items, from memory where this encoder has one."""
        if not items:
            return np.zeros((0, 0), dtype=np.float32)
        found = encode(items) if self.memory is None else self.memory.look_up(kind, keys, items, encode)
        return found.numpy()

    def _encode_tokens(self, tokens: Tensor) -> Tensor:
        """Encode int64 [N, L]; what cannot reach the pooled token is not computed."""
        if not _is_causal(self.model):
            return self.model.encode_text(without_padding(self.model, tokens))
        model = self.model
        length = int(tokens.argmax(dim=-1).max()) + 1  # the end of text has the highest id
        short = tokens[:, :length]
        states = model.token_embedding(short) + model.positional_embedding[:length]
        states = model.ln_final(model.transformer(states, attn_mask=model.attn_mask[:length, :length]))
        pooled = states[torch.arange(len(short), device=short.device), short.argmax(dim=-1)]
        projection = model.text_projection
        return projection(pooled) if isinstance(projection, nn.Module) else pooled @ projection

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute in this encoder's precision; weights are then converted once for all batches."""
        dtype, low = PRECISIONS[self.precision], PRECISIONS[self.precision] != torch.float32
        with matrix_products(self.precision), torch.autocast(self.device.type, dtype, enabled=low):
            yield

    @torch.inference_mode()
    def _forward(self, encode: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        return encode(batch.to(self.device)).float().cpu()


def normalised(features: np.ndarray) -> np.ndarray:
    """Return float features [N, d] scaled to unit length; a zero vector stays zero."""
    lengths = np.sqrt((features * features).sum(axis=-1, keepdims=True))
    return features / np.where(lengths > 0, lengths, 1)


def load_dual_encoder(
    name: str = "ViT-B-32",
    pretrained: str | None = "openai",
    *,
    checkpoint: str | Path | None = None,
    seed: int | None = None,
    precision: str = "auto",
    device: str = "auto",
) -> DualEncoder:
    """Load an open_clip model.

    Args:
        name: an open_clip model name (``ViT-B-32``, ``xlm-roberta-base-ViT-B-32``), or a folder
            with ``open_clip_config.json``, its weights and, where it has one, its tokenizer.
        pretrained: an open_clip pretraining tag. With a checkpoint it says only which weights that
            one was trained from, which decides the activation function and the preprocessing.
        checkpoint: a local file with weights of the whole model, read without running any code;
            LoRA factors as published with PAC-S++ are merged.
        seed: random weights from this seed instead, for tests.
        precision: "fp32", "tf32", "bf16", "fp16", or "auto": fp16 on a GPU as the reference code of
            CLIPScore, bf16 on a CPU that multiplies it in hardware, fp32 elsewhere.
        device: a torch device, or "auto".

    Raises:
        ConfigError: an unknown model, tag or precision.
        ModelError: a checkpoint that is unsafe or does not fit.
        UnavailableError: weights that are neither here nor to be had from the hub.
    """
    device = choose_device(device)
    fast = "fp16" if device.startswith("cuda") else choose_precision("auto", device)
    precision = fast if precision == "auto" else precision
    if Path(name).is_dir():
        return _load_folder(Path(name), checkpoint, seed, precision=precision, device=device)
    architecture = name.replace("/", "-")
    tag = _tag_settings(architecture, pretrained)
    if not (tag or checkpoint is not None or seed is not None):
        raise ConfigError("no weights: give `pretrained`, `checkpoint`, or a `seed` for random ones")
    with hub_guard(name):
        described = _describe(architecture, tag)
        model = _build(architecture, described, tag, seed)
        tokenizer = _tokenizer(architecture)
    weights = load_weights(model, None, tag, pretrained, checkpoint, seed)
    return DualEncoder(
        model,
        tokenizer,
        image_transform(model),
        name=architecture,
        weights=weights,
        precision=precision,
        device=device,
        architecture=described,
    )


def _load_folder(
    folder: Path, checkpoint: str | Path | None, seed: int | None, *, precision: str, device: str
) -> DualEncoder:
    """Load a dual encoder from its folder, and from nowhere else."""
    described, preprocess = check_dual_folder(folder, weighed=checkpoint is None and seed is None)
    with torch.random.fork_rng(devices=[]), no_hub():
        torch.manual_seed(0 if seed is None else seed)
        model = model_of_folder(folder, described, preprocess)
        tokenizer = tokenizer_of_folder(folder, described["text_cfg"])
    weights = load_weights(model, folder, None, None, checkpoint, seed)
    return DualEncoder(
        model,
        tokenizer,
        image_transform(model),
        name=folder.resolve().name,
        weights=weights,
        precision=precision,
        device=device,
        architecture=described,
    )


def _tag_settings(architecture: str, pretrained: str | None) -> dict[str, Any]:
    import open_clip

    if architecture not in open_clip.list_models():
        raise ConfigError(
            f"open_clip has no model {architecture!r}, and there is no such folder; it has: "
            f"{', '.join(open_clip.list_models())}"
        )
    if pretrained is None:
        return {}
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if pretrained not in tags:
        raise ConfigError(
            f"model {architecture!r} has no weights {pretrained!r}; it has: {', '.join(tags) or 'none'}; "
            "a local file goes into `checkpoint`"
        )
    return dict(open_clip.get_pretrained_cfg(architecture, pretrained))


def _describe(architecture: str, tag: dict[str, Any]) -> dict[str, Any]:
    """Return open_clip's description of a model, with the activation that its weights expect."""
    import open_clip

    described = dict(open_clip.get_model_config(architecture))
    text = dict(described["text_cfg"])
    if "hf_model_name" in text:
        text["hf_model_pretrained"] = False
    described["text_cfg"] = text
    if tag.get("quick_gelu"):
        described["quick_gelu"] = True
    return described


def _build(architecture: str, described: dict[str, Any], tag: dict[str, Any], seed: int | None) -> nn.Module:
    """Build the model with random weights, with the activation and preprocessing its weights expect."""
    import open_clip

    keys = ("mean", "std", "interpolation", "resize_mode")
    with torch.random.fork_rng(devices=[]), _quiet_logging():
        torch.manual_seed(0 if seed is None else seed)
        return open_clip.create_model(
            architecture,
            pretrained=None,
            load_weights=False,
            pretrained_text=False,
            force_preprocess_cfg={key: tag[key] for key in keys if tag.get(key)},
            **{key: value for key, value in described.items() if key != "custom_text"},
        )


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keep open_clip from logging that weights are missing (they come next) to a root handler it adds."""
    root, before, quiet = logging.getLogger(), logging.root.manager.disable, logging.NullHandler()
    root.addHandler(quiet)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(quiet)


def _tokenizer(architecture: str) -> Callable[[list[str]], Tensor]:
    import open_clip

    config = open_clip.get_model_config(architecture) or {}
    remote = "hf_tokenizer_name" in config.get("text_cfg", {})  # one of transformers, which would ask
    return open_clip.get_tokenizer(architecture, **({"trust_remote_code": False} if remote else {}))


def image_transform(model: Any) -> Callable[[Any], Tensor]:
    """Return the preprocessing of an open_clip model: PIL image -> float32 [3, s, s]."""
    from open_clip.transform import PreprocessCfg, image_transform_v2

    settings = PreprocessCfg(**model.visual.preprocess_cfg)
    transform = image_transform_v2(settings, is_train=False)
    transform.side = settings.size if isinstance(settings.size, int) else max(settings.size)
    return transform


def without_padding(model: Any, tokens: Tensor) -> Tensor:
    """Return tokens [N, L] without the columns that are padding in every row, where the tower masks them."""
    padding = getattr(getattr(getattr(model, "text", None), "config", None), "pad_token_id", None)
    if padding is None:  # not a Hugging Face tower
        return tokens
    return tokens[:, : max(1, int((tokens != padding).sum(dim=-1).max()))]


def _is_causal(model: Any) -> bool:
    """Whether the text tower is CLIP's own: causal attention, pooled at the end of text."""
    from open_clip import CLIP

    mask = getattr(model, "attn_mask", None)
    return type(model) is CLIP and model.text_pool_type == "argmax" and mask is not None


def _lengths(tokens: Tensor) -> Tensor:
    """Return the number of tokens of each row that differ from its last one, which pads all but full rows."""
    return (tokens != tokens[:, -1:]).sum(dim=-1)
