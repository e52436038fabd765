"""What fp32 products are rounded to: what the precision says inside a block, the program's choice outside."""

import pytest
import torch

from suisei.encoders.fp32_products import round_products
from suisei.encoders.precision import matrix_products

NEWER = pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="PyTorch before 2.9")


def older():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


def newer():
    parts = torch.backends.cudnn.conv, torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv
    return [part.fp32_precision for part in (torch.backends.cuda.matmul, *parts)]


@pytest.fixture(autouse=True)
def usual():
    """What the rest of the tests compute with."""
    put_back = round_products(False)
    yield
    if hasattr(torch.backends, "fp32_precision"):
        torch.backends.fp32_precision = "none"
    put_back()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "int8"])
@pytest.mark.parametrize("chosen", [("high", True), ("medium", False), ("highest", True)])
def test_fp32_is_fp32_whatever_the_program_allows(precision, chosen):
    torch.set_float32_matmul_precision(chosen[0])
    torch.backends.cudnn.allow_tf32 = chosen[1]
    with matrix_products(precision):
        assert older() == ("highest", False)
        with matrix_products("tf32"):
            assert older() == ("highest", False)
    assert older() == chosen


def test_tf32_is_of_convolutions_too():
    chosen = "highest", False
    torch.set_float32_matmul_precision(chosen[0])
    torch.backends.cudnn.allow_tf32 = chosen[1]
    with matrix_products("tf32"):
        assert older() == ("high", True)
    assert older() == chosen


@NEWER
@pytest.mark.parametrize(("precision", "inside"), [("fp32", ("highest", False)), ("tf32", ("high", True))])
@pytest.mark.parametrize("of_all", ["tf32", "ieee", "none"])
@pytest.mark.parametrize("of_products", ["tf32", "ieee", "none"])
def test_a_program_of_the_newer_interface_keeps_its_choice(precision, inside, of_all, of_products):
    for part in (torch.backends.cudnn.conv, torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv):
        part.fp32_precision = "none"
    torch.backends.fp32_precision = of_all
    torch.backends.cuda.matmul.fp32_precision = of_products
    before = newer()
    with matrix_products(precision):
        assert older() == inside
        assert set(newer()) == {"tf32" if precision == "tf32" else "ieee"}
    assert newer() == before


@NEWER
def test_parts_go_on_following_the_setting_of_all():
    for part in (torch.backends.cudnn.conv, torch.backends.mkldnn.conv, torch.backends.mkldnn.matmul):
        part.fp32_precision = "none"
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.backends.fp32_precision = "tf32"
    with matrix_products("fp32"):
        pass
    assert newer() == ["tf32"] * 4
    torch.backends.fp32_precision = "ieee"
    assert newer() == ["ieee"] * 4
