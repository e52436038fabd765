"""Two processes that speak to each other, as those of one training do, and what they are started with."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch


def answers_of(work, folder, *given):
    """Return what a function at a module's top returns in each of two processes.

    Args:
        work: called with the number of the process and ``given``; neither it nor its answer holds tensors.
        folder: an empty one, where they meet.
        given: further arguments.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, initializer=_alone) as pool:
        return list(pool.map(partial(_together, work, str(folder / "meet"), given), (0, 1), timeout=300))


def environment():
    """Return this process's variables but Lightning's, which would tell its children what they are."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PL_", "LIGHTNING_"))}


def _alone():
    os.environ["SUISEI_CACHE"] = "off"
    torch.set_num_threads(1)


def _together(work, meet, given, rank):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=2)
    try:
        answer = work(rank, *given)
        torch.distributed.barrier()
        return answer
    finally:
        torch.distributed.destroy_process_group()
