"""Matrix products in 8-bit whole numbers, for processors that multiply those faster than floating-point ones.

A weight is rounded once, with a scale per output channel; an activation when it comes, with a scale per
token, so that no caption changes another's numbers. Sums are exact. A few channels of a transformer are far
larger than the others; before rounding, half of that (in logarithms) is moved into the weights, as in
SmoothQuant (Xiao et al., 2023, equation 4). What is no matrix product stays fp32. The kernels are oneDNN's,
which PyTorch brings along. Shape letters: N tokens, I and O inputs and outputs.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LIMIT = 127
ZERO = 128
"""What stands for 0 in a rounded activation: AVX512-VNNI multiplies unsigned with signed bytes."""
ROWS = 256
"""Tokens at once: what is rounded, multiplied and scaled stays in a core's cache in between."""
PROBE = (16, 16)
"""Texts and tokens of each that show how large every channel of an activation is."""
SMALLEST = 1e-30
LEAST_CHANNEL, LEAST_WEIGHT = 1e-3, 1e-6


def has_int8_products() -> bool:
    """Return whether this processor multiplies bytes in hardware, into sums that cannot overflow."""
    if not hasattr(torch.cpu, "get_capabilities") or not torch.backends.mkldnn.is_available():
        return False
    found = torch.cpu.get_capabilities()
    return any(bool(found.get(name)) for name in ("avx512_vnni", "amx_int8"))


class Int8Linear(nn.Module):
    """A linear layer [..., I] to [..., O] of rounded weights and activations, for inference on a CPU.

    Args:
        linear: the layer; it keeps its weights.
        largest: how large the channels of an activation are, float [I]; None for all alike.
        hardware: whether bytes are multiplied as such. If not, the same whole numbers are multiplied in fp32,
            which gives the same but for its rounding of sums.
    """

    def __init__(self, linear: nn.Linear, largest: Tensor | None = None, *, hardware: bool) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        divisor = torch.ones(linear.in_features)
        if largest is not None:
            widest = weight.abs().amax(dim=0).clamp(min=LEAST_WEIGHT)
            divisor = (largest.clamp(min=LEAST_CHANNEL) / widest).sqrt()
        weight = weight * divisor
        scale = weight.abs().amax(dim=1).clamp(min=SMALLEST) / LIMIT
        bias = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach().float()
        whole = (weight / scale[:, None]).round().to(torch.int8)
        self.weight = nn.Parameter(whole, requires_grad=False)
        for name, value in (("scale", scale), ("smaller", 1 / divisor), ("bias", bias)):
            self.register_parameter(name, nn.Parameter(value.clone(), requires_grad=False))
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.hardware = hardware
        self._packed: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # in oneDNN's own order, and made again

    def forward(self, states: Tensor) -> Tensor:
        """Return float32 [..., O] of float32 [..., I]."""
        rows = states.reshape(-1, self.in_features)
        out = rows.new_empty(len(rows), self.out_features)
        for start in range(0, len(rows), ROWS):
            self._multiply(rows[start : start + ROWS], out[start : start + ROWS])
        return out.view(*states.shape[:-1], self.out_features)

    def _multiply(self, rows: Tensor, out: Tensor) -> None:
        smaller, bias = cast(Tensor, self.smaller), cast(Tensor, self.bias)
        rows = rows * smaller
        largest = rows.abs().amax(dim=1, keepdim=True).clamp_(min=SMALLEST)
        whole = rows.mul_(LIMIT / largest).add_(ZERO + 0.5).to(torch.uint8)  # cut off, and so rounded
        torch.addcmul(bias, self._product(whole), largest / LIMIT, out=out)

    def _product(self, whole: Tensor) -> Tensor:
        """Return the product [N, O] of uint8 [N, I] less its zero with the weights, scaled per channel."""
        scale = cast(Tensor, self.scale)
        if not self.hardware:
            return F.linear(whole.float() - ZERO, self.weight.float()) * scale
        if self._packed is None:
            zeros = torch.zeros(self.out_features, dtype=torch.int64)
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight, None), zeros
        packed, zeros = self._packed
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, ZERO, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product


def to_int8(encoder: nn.Module, *, hardware: bool | None = None) -> None:
    """Replace the linear layers of a text encoder in place; those that were replaced before stay as they are.

    How large channels are is seen on made-up texts of its vocabulary, always the same ones.

    Args:
        encoder: in fp32 on the CPU; takes ``input_ids`` and ``attention_mask``, and has a ``config``.
        hardware: see :class:`Int8Linear`; None for what this processor has.
    """
    hardware = has_int8_products() if hardware is None else hardware
    linears = {name: part for name, part in encoder.named_modules() if type(part) is nn.Linear}
    largest = _largest_inputs(encoder, linears)
    for name, linear in linears.items():
        parent = encoder.get_submodule(name.rpartition(".")[0])
        parent.add_module(name.rpartition(".")[2], Int8Linear(linear, largest.get(name), hardware=hardware))


def _largest_inputs(encoder: Any, linears: dict[str, nn.Linear]) -> dict[str, Tensor]:
    """Return, of every layer that runs, the largest absolute value of each input channel, float [I]."""
    vocabulary = getattr(getattr(encoder, "config", None), "vocab_size", None)
    if not linears or vocabulary is None:
        return {}
    found: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def look(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            found[name] = given[0].detach().flatten(0, -2).abs().amax(dim=0)

        return look

    hooks = [linear.register_forward_pre_hook(watch(name)) for name, linear in linears.items()]
    training = encoder.training
    try:
        ids = torch.randint(int(vocabulary), PROBE, generator=torch.Generator().manual_seed(0))
        ids[ids == getattr(encoder.config, "pad_token_id", None)] = int(vocabulary) - 1
        with torch.no_grad():
            encoder.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    finally:
        encoder.train(training)
        for hook in hooks:
            hook.remove()
    return found
