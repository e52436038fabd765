"""Which device and number format an encoder computes with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from suisei.encoders.fp32_products import round_products
from suisei.encoders.int8 import to_int8
from suisei.encoders.precision_words import PRECISION
from suisei.encoders.threads import compute_alone_if_forked, one_thread
from suisei.errors import ConfigError, UnavailableError
from suisei.ranges import check

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.float32,
}
"""What the weights of an encoder are kept in; tf32 and int8 round within products alone."""
DEVICE_KINDS = ("cpu", "cuda", "mps", "xpu")
"""Where something may compute in mixed precision."""


def choose_device(device: str) -> str:
    """Return the device; for "auto" this process's GPU where there is one, else "cpu".

    Each process on a machine, numbered by ``LOCAL_RANK`` as torchrun and Lightning do, has its own.

    Raises:
        ConfigError: there is no such device.
        UnavailableError: this machine has none, or not so many.
    """
    if device == "auto":
        return _own_gpu() if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise ConfigError(f"device is {device!r}; expected auto, cpu, cuda, cuda:1, ...") from None
    there = torch.cuda.device_count()
    if chosen.type == "cuda" and (chosen.index or 0) >= there:
        has = f"{there} GPUs, counted from cuda:0" if there else "no GPU that torch can use"
        raise UnavailableError(f"device {device!r} is not there: this machine has {has}; use cpu or auto")
    missing = (chosen.type == "mps" and not torch.backends.mps.is_available()) or (
        chosen.type == "xpu" and (chosen.index or 0) >= torch.xpu.device_count()
    )
    if missing:
        raise UnavailableError(f"device {device!r} is not there; use cpu or auto")
    return device


def _own_gpu() -> str:
    rank = os.environ.get("LOCAL_RANK", "")
    own = rank.isdecimal() and 0 < int(rank) < torch.cuda.device_count()
    return f"cuda:{int(rank)}" if own else "cuda"


def choose_precision(precision: str, device: str, *, on_gpu: str | None = None) -> str:
    """Return the precision, with "auto" replaced by bf16 where that is fast and by fp32 elsewhere.

    The environment variable ``SUISEI_PRECISION`` stands for "auto" where it is set, for figures that must
    be the same on machines with and without bf16 products.

    Args:
        precision: one of :data:`suisei.encoders.precision_words.PRECISIONS`.
        device: a torch device.
        on_gpu: what "auto" is on a CUDA device, where that is not the same as elsewhere.

    Raises:
        ConfigError: another precision, int8 on anything but a CPU, or tf32 where it is fp32.
    """
    if precision == "auto":
        precision = os.environ.get("SUISEI_PRECISION") or "auto"
    if precision == "auto" and on_gpu is not None and torch.device(device).type == "cuda":
        return on_gpu
    if precision == "auto":
        return "bf16" if has_fast_bf16(device) else "fp32"
    check("precision", precision, PRECISION)
    if precision == "int8" and torch.device(device).type != "cpu":
        raise ConfigError(f"precision int8 is for CPUs; on {device} use bf16 or fp16")
    check_tf32(precision, device)
    return precision


def check_tf32(precision: str, device: str) -> None:
    """Refuse tf32 where products would be those of fp32, and a signature would say otherwise.

    Raises:
        ConfigError: tf32 on anything but a GPU of CUDA's, of compute capability 8.0 or newer.
    """
    if precision != "tf32":
        return
    if torch.device(device).type != "cuda":
        raise ConfigError(f"precision tf32 is for CUDA GPUs; {device} computes fp32 then: use fp32 or bf16")
    if torch.version.hip or torch.cuda.get_device_capability(device) < (8, 0):
        raise ConfigError(f"precision tf32: the GPU {device} has no TF32 and computes fp32; use fp32 or fp16")


def of_images(precision: str) -> str:
    """Return the precision of what is no text encoder alone, which is fp32 beside text in int8."""
    return "fp32" if precision == "int8" else precision


def has_fast_bf16(device: str) -> bool:
    """Return whether the device multiplies bf16 matrices in hardware: AMX or AVX512-BF16 on a CPU."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if kind != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return False
    capabilities = torch.cpu.get_capabilities()
    return any(bool(capabilities.get(name)) for name in ("amx_bf16", "amx_tile", "avx512_bf16"))


def to_precision(module: nn.Module, precision: str) -> None:
    """Convert an encoder's weights in place.

    Batch normalisation keeps its running statistics, and with them its weights, as they are in fp32.
    """
    if precision == "int8":
        to_int8(module)
    if DTYPES[precision] == torch.float32:
        return
    with one_thread():
        for part in module.modules():
            if not isinstance(part, nn.modules.batchnorm._BatchNorm):
                _convert(part, DTYPES[precision])


def _convert(part: nn.Module, dtype: torch.dtype) -> None:
    """Convert a module's own floating-point tensors in place, where they are of another type."""
    own = [
        tensor for held in (part._parameters, part._buffers) for tensor in held.values() if tensor is not None
    ]
    if any(tensor.is_floating_point() and tensor.dtype != dtype for tensor in own):
        part._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, recurse=False)


def encoders_to(precision: str, backbone: nn.Module, tower: nn.Module | None) -> None:
    """Convert the weights of a model's text encoder and of its image tower, where it has one, in place."""
    to_precision(backbone, precision)
    if tower is not None:
        to_precision(tower, of_images(precision))


@contextmanager
def quick_gradients(*, recomputed: bool = False) -> Iterator[None]:
    """Compute what is learned from, inside this block, as quickly as its gradients come back.

    In bf16 on a CPU attention is one product at a time: PyTorch's fused one takes about six times as long
    backwards, with the few tokens of captions. What is learned here by :mod:`suisei.encoders.attention` is
    faster still. In mixed precision a weight is converted once for all parts of a batch, and so is its
    gradient; the trainer would have every part convert it anew. Nothing inside the block may use trained
    weights without gradients, for what is converted then has none.

    Args:
        recomputed: whether layers are computed again on the way back, which convert weights for themselves.
    """
    cpu = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(not recomputed)
    try:
        with sdpa_kernel(SDPBackend.MATH) if cpu else nullcontext():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)
        torch.clear_autocast_cache()


@contextmanager
def own_formats() -> Iterator[None]:
    """Compute, inside this block, in the formats that signatures name, whatever the caller's are.

    Mixed precision (``torch.autocast``) of the caller's thread is off, and new tensors are float32 where
    another default type was set, which is one for the whole process, and on the CPU where another default
    device was set. A process forked from one that computed here does so in one thread.
    """
    compute_alone_if_forked()
    with ExitStack() as stack:
        for kind in filter(torch.is_autocast_enabled, DEVICE_KINDS):
            stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":  # only then: the context costs at every call of torch
            stack.enter_context(torch.device("cpu"))
        _default.enter()
        stack.callback(_default.leave)
        yield


class _Default:
    """PyTorch's default type, which is one for the whole process: float32 while any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = torch.float32

    def enter(self) -> None:
        with self._lock:
            if not self._inside and torch.get_default_dtype() != torch.float32:
                self._before = torch.get_default_dtype()
                torch.set_default_dtype(torch.float32)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before != torch.float32:
                torch.set_default_dtype(self._before)
                self._before = torch.float32


_default = _Default()


class _Products:
    """PyTorch's settings for fp32 products and convolutions, which are one for the whole process.

    Threads that want the same compute side by side; those that want another wait until these are done.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._own = threading.local()  # how deep a thread is inside its own blocks
        self._threads = 0
        self._tf32 = False
        self._put_back: Callable[[], None] | None = None

    def enter(self, tf32: bool) -> None:
        depth = getattr(self._own, "depth", 0)
        with self._changed:
            if not depth:
                self._changed.wait_for(lambda: not self._threads or self._tf32 == tf32)
                if not self._threads:
                    self._put_back = round_products(tf32)
                self._tf32 = tf32
                self._threads += 1
            self._own.depth = depth + 1

    def leave(self) -> None:
        with self._changed:
            self._own.depth -= 1
            if not self._own.depth:
                self._threads -= 1
                if not self._threads and self._put_back is not None:
                    self._put_back()
                self._changed.notify_all()


_products = _Products()


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Compute fp32 products and convolutions in TF32 inside this block for tf32, and in fp32 for all others.

    Whatever the program has set (``torch.set_float32_matmul_precision``) holds again afterwards. Blocks
    inside a thread's outermost one keep its setting.
    """
    _products.enter(precision == "tf32")
    try:
        yield
    finally:
        _products.leave()
