"""What is dropped: as many units as asked for, the same ones on the way back, and the mean stays."""

import pytest
import torch

from suisei.encoders.dropout import dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_is_dropped_and_the_rest_scaled(share, dtype):
    torch.manual_seed(0)
    units = torch.ones(301, 333, dtype=dtype)
    found = dropout(units, share)
    assert found.shape == units.shape
    assert found.dtype == dtype
    dropped = found == 0
    deviation = (share * (1 - share) / units.numel()) ** 0.5
    assert float(dropped.float().mean()) == pytest.approx(share, abs=4 * deviation)
    kept = found[~dropped]
    assert torch.equal(kept, kept[:1].expand_as(kept))
    assert float(kept[0]) == pytest.approx(1 / (1 - share), rel=0.01)
    rows = dropped.float().mean(dim=1)  # neighbours are decided by bits of one number
    pairs = (dropped[:, :-1] & dropped[:, 1:]).float().mean()
    assert float(pairs) == pytest.approx(share**2, abs=0.01)
    assert float(rows.std()) == pytest.approx((share * (1 - share) / 333) ** 0.5, rel=0.25)


def test_gradients_go_where_units_were_kept():
    torch.manual_seed(0)
    units = torch.randn(17, 3, requires_grad=True)
    found = dropout(units, 0.3)
    found.backward(torch.full_like(found, 2.0))
    expected = torch.where(found == 0, 0.0, 2 / 0.7)
    torch.testing.assert_close(units.grad, expected, atol=1e-4, rtol=1e-4)
    assert 0 < int((units.grad == 0).sum()) < units.numel()


def test_a_seed_decides_what_is_dropped():
    units = torch.ones(50, 7)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(dropout(units, 0.5))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_nothing_is_dropped_where_nothing_is_to_be_and_never_all():
    units = torch.ones(1000)
    state = torch.get_rng_state()
    assert dropout(units, 0.0) is units
    assert torch.equal(torch.get_rng_state(), state)
    assert bool(dropout(units, 1 - 1e-9).isfinite().all())
    assert dropout(torch.ones(0, 4), 0.5).shape == (0, 4)
