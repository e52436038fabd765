"""The cosines that enter beside the fused features."""

import numpy as np
import torch

from suisei.models.similarities import similarities


def test_similarities_equal_a_plain_loop_and_are_nan_without_references():
    generator = torch.Generator().manual_seed(0)
    candidate = torch.randn(3, 2, 5, generator=generator)
    references = torch.randn(3, 4, 2, 5, generator=generator)
    mask = torch.tensor([[True, True, False, True], [False, True, False, False], [False] * 4])

    got = similarities(candidate, references, mask)

    for row in range(2):
        for pooling in range(2):
            c = candidate[row, pooling].numpy()
            cosines = [
                float(c @ r / np.linalg.norm(c) / np.linalg.norm(r))
                for r in references[row, mask[row], pooling].numpy()
            ]
            expected = [max(cosines), sum(cosines) / len(cosines), min(cosines)]
            np.testing.assert_allclose(got[row, pooling::2].numpy(), expected, atol=1e-6)
    assert got[2].isnan().all()


def test_similarities_do_not_depend_on_padding_or_order():
    candidate, references = torch.randn(1, 1, 4), torch.randn(1, 3, 1, 4)
    mask = torch.ones(1, 3, dtype=torch.bool)
    once = similarities(candidate, references, mask)
    padded = torch.cat([references.flip(1), torch.randn(1, 2, 1, 4)], dim=1)
    wider = torch.tensor([[True, True, True, False, False]])
    torch.testing.assert_close(similarities(candidate, padded, wider), once)


def test_no_reference_places_at_all_give_nan():
    empty = similarities(torch.randn(2, 1, 4), torch.zeros(2, 0, 1, 4), torch.zeros(2, 0, dtype=torch.bool))
    assert empty.shape == (2, 3)
    assert empty.isnan().all()


def test_references_that_say_the_same_or_the_opposite_keep_their_cosine_beside_padding():
    candidate = torch.tensor([[[1.0, 0.0]]] * 2)
    references = torch.tensor([[[[2.0, 0.0]], [[0.0, 0.0]]], [[[-2.0, 0.0]], [[0.0, 0.0]]]])
    found = similarities(candidate, references, torch.tensor([[True, False]] * 2))
    assert found.tolist() == [[1.0] * 3, [-1.0] * 3]
