"""The other side, as simply as people write it: nothing is computed once that occurs twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.data.images import load_image
from suisei.data.sample import CaptionSample
from suisei.encoders.text import TextEncoder
from tests.benchmarks.inputs import HIDDEN, Options, backbone, tokenizer

BATCH = 16
"""COMET's default."""


class PlainRegressor(nn.Module):
    """A regressor in the manner of COMET: three captions per sample, every one encoded as it comes."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.text = TextEncoder(backbone(options.size), tokenizer(options.root, options.size))
        self.weights = nn.Parameter(torch.zeros(self.text.states))
        first, *rest = HIDDEN[options.size]
        layers: list[nn.Module] = [nn.Linear(6 * self.text.width, first), nn.Tanh()]
        for width in rest:
            layers += [nn.Linear(first, width), nn.Tanh()]
            first = width
        self.head = nn.Sequential(*layers, nn.Linear(first, 1), nn.Sigmoid())
        self.to(options.device)

    def embed(self, captions: Sequence[str]) -> Tensor:
        """Encode captions [B] to [B, d], padded to the longest of them."""
        device = self.weights.device
        ids, mask = (part.to(device) for part in self.text.pad(self.text.tokenize(captions)))
        states = torch.stack(self.text(ids, mask))
        states = F.layer_norm(states, states.shape[-1:])
        mixed = torch.einsum("s,sbld->bld", torch.softmax(self.weights, 0), states)
        return (mixed * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, rows: Sequence[CaptionSample]) -> Tensor:
        """Return scores [B] of samples with two references or more."""
        candidate, one, other = (self.embed(own) for own in _columns(rows))
        differences = [(candidate - one).abs(), (candidate - other).abs()]
        products = [candidate * one, candidate * other]
        return self.head(torch.cat([candidate, one, *products, *differences], dim=1)).squeeze(-1)


def score(model: PlainRegressor, rows: Sequence[CaptionSample], batch_size: int = BATCH) -> Tensor:
    """Score rows in file order."""
    model.eval()
    with torch.no_grad():
        return torch.cat(
            [model(rows[start : start + batch_size]) for start in range(0, len(rows), batch_size)]
        )


def padded_tokens(model: PlainRegressor, rows: Sequence[CaptionSample], batch_size: int = BATCH) -> int:
    """Return how many tokens :func:`score` encodes, padding included."""
    total = 0
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        for texts in _columns(part):
            total += len(texts) * max(len(ids) for ids in model.text.tokenize(texts))
    return total


def _columns(rows: Sequence[CaptionSample]) -> list[list[str]]:
    """Return candidates, first references and second references."""
    return [[row.candidate for row in rows], *([row.references[n] for row in rows] for n in (0, 1))]


def train(model: PlainRegressor, rows: Sequence[CaptionSample], batch_size: int) -> None:
    """Fine-tune on rows in the order they come, the embeddings frozen as in COMET."""
    model.train()
    model.text.set_trainable(True, layers=12)
    trained = [weights for weights in model.parameters() if weights.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6)
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        target = torch.tensor([row.rating.mean for row in part if row.rating is not None])
        target = target.to(model.weights.device)
        optimizer.zero_grad()
        F.mse_loss(model(part), target).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()


def clip_scores(
    model: Any, transform: Any, tokenize: Any, rows: Sequence[CaptionSample], prompt: str, batch_size: int
) -> Tensor:
    """Return cosines of images and captions by open_clip in fp32, pair by pair."""
    scores, device = [], next(model.parameters()).device
    with torch.no_grad():
        for start in range(0, len(rows), batch_size):
            part = rows[start : start + batch_size]
            pixels = torch.stack([transform(load_image(row.image)) for row in part])
            images = F.normalize(model.encode_image(pixels.to(device)), dim=-1)
            tokens = tokenize([prompt + row.candidate for row in part]).to(device)
            texts = F.normalize(model.encode_text(tokens), dim=-1)
            scores.append((images * texts).sum(-1))
    return torch.cat(scores)
