"""How much is encoded at once."""

import open_clip
import pytest

from suisei.encoders.batch_sizes import (
    IMAGES,
    IMAGES_CUDA,
    SAMPLES,
    TOKENS,
    TOKENS_CUDA,
    images_per_batch,
    in_batches,
    samples_per_batch,
    tokens_per_batch,
)
from suisei.errors import UnavailableError


@pytest.mark.parametrize(
    ("width", "tokens"), [(768, 1024), (1024, 768), (4096, 256), (384, 2048), (16, TOKENS)]
)
def test_wider_encoders_get_fewer_tokens_on_a_cpu(width, tokens):
    assert tokens_per_batch(width, "cpu") == tokens
    assert tokens_per_batch(width, "cuda") == tokens_per_batch(width, "cuda:1") == TOKENS_CUDA


@pytest.mark.parametrize(("tokens", "samples"), [(1, 1024), (5 * 20, 1024), (1024, 128), (50 * 128, SAMPLES)])
def test_a_gpu_matches_more_samples_at_once_where_they_are_short(tokens, samples):
    assert samples_per_batch(tokens, "cuda") == samples_per_batch(tokens, "cuda:1") == samples
    assert samples_per_batch(tokens, "cpu") == SAMPLES


def tower(**vision):
    text = {"context_length": 4, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}
    return open_clip.CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text).visual


def test_a_vision_transformer_gets_images_by_its_patches_and_width():
    large = tower(layers=1, width=768, head_width=64, patch_size=16, image_size=224)
    assert images_per_batch(large, "cpu") == 5  # 197 tokens each
    small = tower(layers=1, width=64, head_width=32, patch_size=16, image_size=32)
    assert images_per_batch(small, "cpu") == IMAGES
    assert images_per_batch(large, "cuda") == images_per_batch(large, "cuda:1") == IMAGES_CUDA


def test_a_tower_without_patches_gets_the_usual_number():
    assert images_per_batch(tower(layers=[1, 1, 1, 1], width=8, head_width=8, image_size=64), "cpu") == IMAGES


def test_a_batch_that_memory_is_too_short_for_is_halved_and_no_item_is_lost():
    tried = []

    def total(items):
        tried.append(len(items))
        if len(items) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return sum(items)

    found = list(in_batches(range(10), 8, total))
    assert tried == [8, 4, 2, 2, 2, 2, 2]
    assert [list(batch) for batch, _ in found] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [made for _, made in found] == [1, 5, 9, 13, 17]


@pytest.mark.parametrize(
    ("error", "raised"), [(MemoryError(), UnavailableError), (RuntimeError("sizes differ"), RuntimeError)]
)
def test_one_item_too_large_and_other_errors_are_raised(error, raised):
    def fails(items):
        raise error

    with pytest.raises(raised, match="one item at a time" if raised is UnavailableError else "sizes differ"):
        list(in_batches([1, 2, 3], 2, fails))
