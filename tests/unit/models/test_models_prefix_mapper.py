"""ClipCap's mapper: its numbers by another way of computing them, and what is refused of a checkpoint."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from suisei.errors import ModelError
from suisei.models.prefix_mapper import MapperShape, PrefixMapper, read_mapper

SHAPE = MapperShape(features=6, width=16, prefix=3, spread=4, layers=2, hidden=32, heads=8)


@pytest.fixture(scope="module")
def published():
    """A checkpoint as ClipCap's program writes it: the mapper's tensors and the language model's."""
    generator = torch.Generator().manual_seed(0)

    def made(*sizes):
        return torch.randn(*sizes, generator=generator) * 0.3

    tensors = {
        "clip_project.linear.weight": made(4 * 16, 6),
        "clip_project.linear.bias": made(4 * 16),
        "clip_project.prefix_const": made(3, 16),
        "gpt.transformer.wte.weight": made(20, 16),
    }
    for layer in range(2):
        own = f"clip_project.transformer.layers.{layer}."
        for norm in ("norm1", "norm2"):
            tensors |= {f"{own}{norm}.weight": 1 + made(16), f"{own}{norm}.bias": made(16)}
        tensors |= {
            f"{own}attn.to_queries.weight": made(16, 16),
            f"{own}attn.to_keys_values.weight": made(32, 16),
            f"{own}attn.project.weight": made(16, 16),
            f"{own}attn.project.bias": made(16),
            f"{own}mlp.fc1.weight": made(32, 16),
            f"{own}mlp.fc1.bias": made(32),
            f"{own}mlp.fc2.weight": made(16, 32),
            f"{own}mlp.fc2.bias": made(16),
        }
    return tensors


def by_hand(tensors, feature):
    """The prefix of one feature [f], position by position and head by head."""
    own = {name.removeprefix("clip_project."): value for name, value in tensors.items()}
    spread = (own["linear.weight"] @ feature + own["linear.bias"]).reshape(4, 16)
    states = torch.cat([spread, own["prefix_const"]])
    for layer in range(2):
        part = {k.split(f"layers.{layer}.")[1]: v for k, v in own.items() if f"layers.{layer}." in k}
        normed = F.layer_norm(states, (16,), part["norm1.weight"], part["norm1.bias"])
        queries = normed @ part["attn.to_queries.weight"].T
        both = (normed @ part["attn.to_keys_values.weight"].T).reshape(7, 2, 8, 2)
        found = torch.zeros(7, 16)
        for head in range(8):
            keys, values = both[:, 0, head], both[:, 1, head]
            weights = (queries.reshape(7, 8, 2)[:, head] @ keys.T / 2**0.5).softmax(dim=-1)
            found[:, 2 * head : 2 * head + 2] = weights @ values
        states = states + found @ part["attn.project.weight"].T + part["attn.project.bias"]
        normed = F.layer_norm(states, (16,), part["norm2.weight"], part["norm2.bias"])
        inner = torch.relu(normed @ part["mlp.fc1.weight"].T + part["mlp.fc1.bias"])
        states = states + inner @ part["mlp.fc2.weight"].T + part["mlp.fc2.bias"]
    return states[4:]


@pytest.mark.parametrize("kind", ["whole.pt", "mapper.pt", "whole.safetensors"])
def test_a_published_checkpoint_is_read_with_its_sizes(published, tmp_path, kind):
    tensors = dict(published)
    if kind == "mapper.pt":
        tensors = {k.removeprefix("clip_project."): v for k, v in tensors.items() if "gpt" not in k}
    path = tmp_path / kind
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)
    mapper = read_mapper(path)
    assert mapper.shape == SHAPE
    assert not any(parameter.requires_grad for parameter in mapper.parameters())
    features = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    found = mapper(features)
    for row, feature in zip(found, features, strict=True):
        torch.testing.assert_close(row, by_hand(published, feature), atol=1e-5, rtol=1e-5)


class Harm:
    def __reduce__(self):
        return exec, ("raise SystemExit('a program inside a checkpoint ran')",)


def test_a_checkpoint_with_a_program_inside_is_refused_and_does_not_run(published, tmp_path):
    path = tmp_path / "bad.pt"
    torch.save({**published, "extra": Harm()}, path)
    with pytest.raises(ModelError, match=r"bad\.pt: refused, because it holds Python objects"):
        read_mapper(path)
    path.write_bytes(pickle.dumps(Harm()))
    with pytest.raises(ModelError, match=r"bad\.pt"):
        read_mapper(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: {"clip_project.model.0.weight": torch.zeros(2, 2)}, "ClipCap's MLP mapper"),
        (lambda t: {k: v for k, v in t.items() if "prefix_const" not in k}, "not ClipCap's transformer"),
        (lambda t: {k: v for k, v in t.items() if "layers.1.mlp.fc2.bias" not in k}, "1 missing"),
        (lambda t: {**t, "clip_project.linear.weight": torch.zeros(63, 6)}, "63 rows"),
        (lambda t: {**t, "clip_project.linear.bias": torch.zeros(9)}, "of another shape"),
    ],
)
def test_what_is_no_transformer_mapper_is_refused(published, tmp_path, change, told):
    torch.save(change(published), tmp_path / "other.pt")
    with pytest.raises(ModelError, match=told):
        read_mapper(tmp_path / "other.pt")


def test_heads_that_do_not_divide_the_width_are_refused(published, tmp_path):
    torch.save(published, tmp_path / "mapper.pt")
    with pytest.raises(ModelError, match="width 16 is no multiple of its 5 heads"):
        read_mapper(tmp_path / "mapper.pt", heads=5)
    with pytest.raises(ModelError, match="no checkpoint file"):
        read_mapper(tmp_path / "none.pt")


def test_a_new_mapper_has_the_sizes_asked_for():
    assert PrefixMapper(SHAPE)(torch.zeros(2, 6)).shape == (2, 3, 16)
