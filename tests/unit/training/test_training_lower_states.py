"""What the untrained layers of an encoder say of captions is found again by caption."""

from types import SimpleNamespace

import torch

from suisei.training import lower_states
from suisei.training.lower_states import LowerStates


def padded(ids):
    width = max(map(len, ids))
    tokens = torch.tensor([[*own, *[0] * (width - len(own))] for own in ids])
    return tokens, tokens > 0


def test_captions_have_their_own_states_in_whatever_batch_they_were(monkeypatch):
    monkeypatch.setattr(lower_states, "tokens_per_batch", lambda *_: 4)
    text = SimpleNamespace(
        width=2,
        pad=padded,
        below=lambda ids, mask, trained: torch.stack([ids, trained * ids], dim=-1).float(),
    )
    captions = [[5], [7, 8, 9], [1, 2], [3], [4, 6]]
    seen = []
    kept = LowerStates(text, captions, 3, torch.device("cpu"), seen.append)
    assert (sum(seen), len(seen) > 1) == (5, True)
    for rows in ([4, 1, 0], [3], [0, 1, 2, 3, 4], [2, 2]):
        wanted = torch.tensor([token for row in rows for token in captions[row]]).float()
        found = kept.of(torch.tensor(rows))
        assert torch.equal(found, torch.stack([wanted, 3 * wanted], dim=-1))
