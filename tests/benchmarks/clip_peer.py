"""torchmetrics' CLIPScore with random weights of CLIP's architectures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.images import load_image
from suisei.data.sample import CaptionSample

BATCH = 64


def scorer(tower: str, device: str) -> Callable[[Sequence[CaptionSample]], float]:
    """Return what computes torchmetrics' CLIPScore of samples with images, in batches, in fp32.

    Args:
        tower: open_clip's name of a CLIP of OpenAI's sizes.
        device: where it computes.
    """
    from torchmetrics.multimodal import CLIPScore

    torch.manual_seed(0)
    metric = CLIPScore(model_name_or_path=lambda: (_Model(tower), _Processor())).to(device)

    def score(rows: Sequence[CaptionSample]) -> float:
        metric.reset()
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            arrays = [np.array(load_image(row.image)).transpose(2, 0, 1) for row in part]
            images = [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]
            metric.update(images, [row.candidate for row in part])
        return float(metric.compute())

    return score


class _Model(torch.nn.Module):
    """Hands out tensors, as transformers 4 did: torchmetrics 1.9 expects them."""

    def __init__(self, tower: str) -> None:
        super().__init__()
        from transformers import CLIPModel

        self.model = CLIPModel(_config(tower)).eval()
        limit = self.model.config.text_config.max_position_embeddings
        self.config = SimpleNamespace(text_config=SimpleNamespace(max_position_embeddings=limit))

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        return _tensor(self.model.get_image_features(pixel_values))

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return _tensor(self.model.get_text_features(input_ids, attention_mask))


def _config(tower: str) -> Any:
    """Return what transformers makes of an architecture of open_clip's."""
    import open_clip
    from transformers import CLIPConfig

    found = open_clip.get_model_config(tower)
    vision, text = found["vision_cfg"], found["text_cfg"]
    return CLIPConfig(
        projection_dim=found["embed_dim"],
        vision_config=_sizes(vision)
        | {"patch_size": vision["patch_size"], "image_size": vision["image_size"]},
        text_config=_sizes({"head_width": text["width"] // text["heads"], **text}),
    )


def _sizes(own: dict[str, Any]) -> dict[str, int]:
    width = own["width"]
    heads = width // own.get("head_width", 64)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": own["layers"]}
    return {**sizes, "num_attention_heads": heads}


def _tensor(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output.pooler_output


class _Processor:
    """CLIP's own image processor, and open_clip's tokenizer, whose vocabulary needs no download."""

    def __init__(self) -> None:
        import open_clip
        from transformers import CLIPImageProcessor

        self._images = CLIPImageProcessor()
        self._tokenize = open_clip.get_tokenizer("ViT-B-32")

    def __call__(self, text: Any = None, images: Any = None, **_: Any) -> dict[str, Tensor]:
        if images is not None:
            return {"pixel_values": self._images(images=images, return_tensors="pt")["pixel_values"]}
        ids = self._tokenize(text)
        longest = int((ids != 0).sum(dim=1).max())
        return {"input_ids": ids[:, :longest], "attention_mask": (ids[:, :longest] != 0).long()}
