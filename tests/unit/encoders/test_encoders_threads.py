"""Small work in one thread: of the calling thread alone, and for as long as it takes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from suisei.encoders.precision import to_precision
from suisei.encoders.threads import one_thread
from suisei.metrics.loading import load
from suisei.models import folder


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_the_calling_thread_alone_computes_alone():
    with ThreadPoolExecutor(1) as other:
        assert other.submit(torch.get_num_threads).result() == 2
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
            assert other.submit(torch.get_num_threads).result() == 2
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_weights_are_converted_by_one_thread():
    class Seen(torch.nn.Linear):
        def _apply(self, *arguments, **options):
            threads.append(torch.get_num_threads())
            return super()._apply(*arguments, **options)

    threads = []
    to_precision(Seen(2, 2), "bf16")
    assert threads == [1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_model_is_opened_by_one_thread(monkeypatch):
    seen = []
    read = folder._read
    monkeypatch.setattr(folder, "_read", lambda *a: (seen.append(torch.get_num_threads()), read(*a))[1])
    load(device="cpu", cache="off")
    assert seen == [1]
    assert torch.get_num_threads() == 2
