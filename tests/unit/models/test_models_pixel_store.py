"""Preprocessed images are the same from memory and decoded, and unreadable ones are counted."""

import pytest
import torch

from suisei.data.images import load_image
from suisei.errors import DataError
from suisei.models.pixel_store import PixelStore
from tests.unit.models.coloured import image, pixels_of


def test_pixels_kept_and_decoded_per_batch_are_the_same():
    images = [image(number) for number in (0, 1, 2)]
    advanced = []
    kept = PixelStore(images, pixels_of, progress=advanced.append)
    decoded = PixelStore(images, pixels_of, max_bytes=0)
    assert kept._kept is not None
    assert decoded._kept is None
    assert sum(advanced) == 3
    rows = torch.tensor([2, 0, 2])
    assert torch.equal(kept[rows], decoded[rows])
    assert torch.equal(kept[rows][1], pixels_of(load_image(images[0])))
    assert PixelStore([], pixels_of)._kept is None


@pytest.mark.parametrize("bad", [(0,), (1, 3, 4, 5), range(6)])
def test_all_unreadable_images_are_counted_and_some_are_named(tmp_path, bad):
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        image(number % 3).resize((4, 4)).save(path)
        if number in bad:
            path.write_bytes(b"")
    with pytest.raises(
        DataError, match=rf"^{len(bad)} of 6 images cannot be read: .*{min(bad)}\.png"
    ) as caught:
        PixelStore(paths, pixels_of)
    named = [number for number in bad if f"{number}.png" in str(caught.value)]
    assert named == list(bad)[:3]
    assert ("and 1 more" in str(caught.value)) == (len(bad) == 4)
