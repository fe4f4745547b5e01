"""Worlds of real worker processes for the tests."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import socket
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from queue import Empty
from typing import Any

import torch
import torch.distributed as dist


def free_port() -> int:
    """Returns a port that nobody uses. It is below those that the system gives to outgoing
    connections: one of them could take it before the caller does."""
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def _worker(worker: int, workers: int, port: int, work: Callable, args: tuple, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo", rank=worker, world_size=workers, timeout=timedelta(seconds=60)
        )
        outcome = work(worker, *args)
    # The parent decides whether this was expected. pytest's own errors are no Exception.
    except BaseException as error:
        outcome = RaisedError(type(error).__name__, str(error), traceback.format_exc())
    # As bytes, because a tensor in shared memory would vanish with this process.
    queue.put((worker, pickle.dumps(outcome)))
    queue.close()
    queue.join_thread()


class RaisedError:
    """An exception that a worker raised."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        self.kind, self.message, self.trace = kind, message, trace


def run_world_with_errors(
    workers: int, work: Callable, *args: Any, timeout: float = 120.0
) -> list[Any]:
    """Run ``work(worker, *args)`` on every worker. Return each result, or a RaisedError."""
    # New processes are forked from a server that has imported torch and has no threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gradwire", "torch._dynamo", "pytest"])
    queue = context.Queue()
    port = free_port()
    processes = [
        context.Process(target=_worker, args=(w, workers, port, work, args, queue), daemon=True)
        for w in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        outcomes = _outcomes(queue, processes, time.monotonic() + timeout)
        for process in processes:
            process.join(timeout=20)
    finally:
        for process in processes:
            process.kill()
    return [outcomes[worker] for worker in range(workers)]


def _outcomes(queue: Any, processes: list[Any], deadline: float) -> dict[int, Any]:
    outcomes: dict[int, Any] = {}
    while len(outcomes) < len(processes):
        # A worker that has ended by now has put its outcome into the queue already.
        ended = {w: p.exitcode for w, p in enumerate(processes) if p.exitcode is not None}
        try:
            worker, outcome = queue.get(timeout=1)
            outcomes[worker] = pickle.loads(outcome)
        except Empty:
            silent = {w: code for w, code in ended.items() if w not in outcomes}
            assert not silent, f"these workers ended without an outcome: {silent}"
            assert time.monotonic() < deadline, "the workers did not finish in time"
    return outcomes


def run_world(workers: int, work: Callable, *args: Any, timeout: float = 120.0) -> list[Any]:
    outcomes = run_world_with_errors(workers, work, *args, timeout=timeout)
    for worker, outcome in enumerate(outcomes):
        assert not isinstance(outcome, RaisedError), f"worker {worker}:\n{outcome.trace}"
    return outcomes
