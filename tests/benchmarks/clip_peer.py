"""torchmetrics' CLIPScore with random weights of CLIP ViT-B/32."""

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


def scorer() -> Callable[[Sequence[CaptionSample]], float]:
    """Return what computes torchmetrics' CLIPScore of samples with images, in batches, in fp32."""
    from torchmetrics.multimodal import CLIPScore

    torch.manual_seed(0)
    metric = CLIPScore(model_name_or_path=lambda: (_Model(), _Processor()))

    def score(rows: Sequence[CaptionSample]) -> float:
        metric.reset()
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            arrays = [np.array(load_image(row.image)).transpose(2, 0, 1) for row in part]
            images = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
            metric.update(images, [row.candidate for row in part])
        return float(metric.compute())

    return score


class _Model(torch.nn.Module):
    """Hands out tensors, as transformers 4 did: torchmetrics 1.9 expects them."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import CLIPConfig, CLIPModel

        self.model = CLIPModel(CLIPConfig()).eval()
        limit = self.model.config.text_config.max_position_embeddings
        self.config = SimpleNamespace(text_config=SimpleNamespace(max_position_embeddings=limit))

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        return _tensor(self.model.get_image_features(pixel_values))

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return _tensor(self.model.get_text_features(input_ids, attention_mask))


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
