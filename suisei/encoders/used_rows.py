"""A word embedding of which only the rows in use are there, for training.

A multilingual vocabulary is most of an encoder's weights (192 of XLM-R base's 278 million), and the captions
of a run have a few hundredths of its tokens. The other rows have no gradient, so that Adam leaves them as
they are. To say so in every step, with gradients and moments of the whole table, is half of a small encoder's
training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UsedRows(nn.Module):
    """Takes the place of an ``nn.Embedding`` [V, d] while a known set of tokens is all that is met.

    Args:
        table: the whole embedding; its weights are kept in main memory until :meth:`whole` is asked for.
        ids: the tokens that are met, that of padding among them, in any order.

    Attributes:
        used_rows: the vectors that are trained, [U, d], by rising token id.
        digest: hash of the whole table before training, of what checkpoints hold and what they leave out.
    """

    place: Tensor

    def __init__(self, table: nn.Embedding, ids: Iterable[int]) -> None:
        super().__init__()
        padding = table.padding_idx
        self.ids = torch.tensor(sorted({*ids, *([] if padding is None else [padding])}))
        place = torch.full((table.num_embeddings,), -1)
        place[self.ids] = torch.arange(len(self.ids))
        self._padding = None if padding is None else int(place[padding])
        self.register_buffer("place", place.to(table.weight.device), persistent=False)
        weights = table.weight.detach()
        self.used_rows = nn.Parameter(weights[self.ids.to(weights.device)], table.weight.requires_grad)
        self.digest = hashlib.sha256(weights.cpu().contiguous().numpy().data).hexdigest()
        self._whole = (weights.cpu(), padding)  # no buffer: DDP would send it to all processes in every step

    @property
    def weight(self) -> Tensor:
        """What encoders ask for the type and device of."""
        return self.used_rows

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of int64 [...] as [..., d]; a token that was not named is an index error."""
        return F.embedding(self.place[ids], self.used_rows, self._padding)

    def whole(self) -> nn.Embedding:
        """Return the embedding with the rows as they are now, and all others as they were."""
        weights, padding = self._whole
        weights = weights.to(self.used_rows.device, copy=True)
        weights[self.ids.to(weights.device)] = self.used_rows.detach()
        frozen = not self.used_rows.requires_grad
        return nn.Embedding.from_pretrained(weights, freeze=frozen, padding_idx=padding)


def worth_leaving_out(table: nn.Embedding, used: int) -> bool:
    """Whether so many tokens of an embedding are few enough, and nothing else depends on the whole of it."""
    if type(table) is not nn.Embedding or table.max_norm is not None or table.scale_grad_by_freq:
        return False
    return 2 * used <= table.num_embeddings
