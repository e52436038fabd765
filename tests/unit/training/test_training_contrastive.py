import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from suisei.errors import ConfigError
from suisei.training.contrastive import gather_features, positive_augmented_loss, symmetric_info_nce
from tests.unit.two_processes import answers_of


def plain_loss(images, texts, tau):
    """The equations of the paper, one exponential at a time."""
    images, texts = np.asarray(images, dtype=np.float64), np.asarray(texts, dtype=np.float64)
    count = len(images)

    def similarity(i, j):
        product = images[i] @ texts[j]
        return math.exp(product / np.linalg.norm(images[i]) / np.linalg.norm(texts[j]) / tau)

    rows = sum(
        -math.log(similarity(i, i) / sum(similarity(i, j) for j in range(count))) for i in range(count)
    )
    columns = sum(
        -math.log(similarity(i, i) / sum(similarity(j, i) for j in range(count))) for i in range(count)
    )
    return rows / count + columns / count


def draw(seed, count=6):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, 5, generator=generator, dtype=torch.float64) for _ in range(4)]


@pytest.mark.parametrize("tau", [1.0, 0.07])
def test_symmetric_info_nce_equals_the_equation(tau):
    images, texts, _, _ = draw(0)
    assert float(symmetric_info_nce(images, texts, 1 / tau)) == pytest.approx(
        plain_loss(images, texts, tau), abs=1e-9
    )
    single = symmetric_info_nce(images.float(), texts.float(), torch.tensor(1 / tau))
    assert float(single) == pytest.approx(plain_loss(images, texts, tau), rel=1e-6)


def test_symmetric_info_nce_at_its_ends():
    features = torch.eye(4)
    assert float(symmetric_info_nce(features, features, 1e4)) == pytest.approx(0, abs=1e-6)
    assert float(symmetric_info_nce(torch.ones(4, 3), features[:, :3] + 1, 0.0)) == pytest.approx(
        2 * math.log(4)
    )


def test_positive_augmented_loss_equals_the_equation():
    images, texts, more_images, more_texts = draw(1)
    found = positive_augmented_loss(
        images,
        texts,
        10.0,
        generated_images=more_images,
        generated_texts=more_texts,
        lambda_v=0.3,
        lambda_t=0.7,
    )
    expected = (
        plain_loss(images, texts, 0.1)
        + 0.3 * plain_loss(more_images, texts, 0.1)
        + 0.7 * plain_loss(images, more_texts, 0.1)
    )
    assert float(found) == pytest.approx(expected, abs=1e-9)
    assert torch.equal(positive_augmented_loss(images, texts, 10.0), symmetric_info_nce(images, texts, 10.0))
    with pytest.raises(ConfigError, match="must not be negative"):
        positive_augmented_loss(images, texts, 1.0, lambda_v=-1)


def test_gathering_does_nothing_in_one_process():
    features = torch.randn(2, 3)
    assert gather_features(features) is features


def towers():
    torch.manual_seed(7)
    return nn.ModuleDict({"image": nn.Linear(6, 5), "text": nn.Linear(4, 5)}).double()


class Loss(nn.Module):
    """A dual encoder with its loss, as a training step computes it."""

    def __init__(self):
        super().__init__()
        self.towers = towers()
        self.logit_scale = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))

    def forward(self, images, texts):
        images = gather_features(self.towers["image"](images))
        texts = gather_features(self.towers["text"](texts))
        return positive_augmented_loss(
            images, texts, self.logit_scale.exp(), generated_texts=texts.flip(1), lambda_t=0.2
        )


def batch():
    generator = torch.Generator().manual_seed(8)
    return (
        torch.randn(8, 6, generator=generator, dtype=torch.float64),
        torch.randn(8, 4, generator=generator, dtype=torch.float64),
    )


def work(rank):
    model = nn.parallel.DistributedDataParallel(Loss())
    images, texts = batch()
    half = slice(4 * rank, 4 * rank + 4)
    loss = model(images[half], texts[half])
    loss.backward()
    return loss.item(), {name: p.grad.numpy() for name, p in model.module.named_parameters()}


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    model = Loss()
    loss = model(*batch())
    loss.backward()
    for found, gradients in answers_of(work, tmp_path):
        assert found == pytest.approx(loss.item(), abs=1e-12)
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(gradients[name], parameter.grad.numpy(), atol=1e-12)


def test_several_texts_of_an_image_equal_a_plain_computation():
    torch.manual_seed(0)
    images, texts, owners = torch.randn(3, 4), torch.randn(5, 4), torch.tensor([0, 0, 1, 2, 2])
    similarities = 7.0 * F.normalize(texts, dim=1) @ F.normalize(images, dim=1).T
    expected = 0.0
    for row, owner in enumerate(owners.tolist()):
        all_images = sum(math.exp(value) for value in similarities[row].tolist())
        all_texts = sum(math.exp(value) for value in similarities[:, owner].tolist())
        own = float(similarities[row, owner])
        expected -= (own - math.log(all_images)) / 5
        expected -= (own - math.log(all_texts)) / int((owners == owner).sum()) / 3
    assert float(symmetric_info_nce(images, texts, 7.0, owners)) == pytest.approx(expected, abs=1e-5)


def test_texts_are_told_apart_by_their_order():
    torch.manual_seed(1)
    images, made, texts = torch.randn(3, 4), torch.randn(3, 4), torch.randn(6, 4)
    owners = torch.tensor([0, 0, 1, 1, 2, 2])
    loss = positive_augmented_loss(images, texts, 5.0, generated_images=made, lambda_v=0.3)
    expected = symmetric_info_nce(images, texts, 5.0, owners) + 0.3 * symmetric_info_nce(
        made, texts, 5.0, owners
    )
    assert float(loss) == pytest.approx(float(expected), abs=1e-6)
