"""One side of `./dev bench program`: trains a model, plainly or as a worker, and stops at gates to be measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from gates import WARM_UP, Gates, iterations
from models import Subject, subjects


class Stopwatch:
    """Processor time of this thread, a mean over what comes after the warm-up."""

    def __init__(self) -> None:
        self._seconds, self._times = 0.0, -WARM_UP
        self._since: float | None = None

    def start(self) -> None:
        self._since = time.thread_time()

    def stop(self) -> None:
        self._times += 1
        if self._times > 0 and self._since is not None:
            self._seconds += time.thread_time() - self._since

    def mean_ms(self) -> float:
        return 1e3 * self._seconds / self._times


def outside_shared_memory(model: nn.Module) -> int:
    """Bytes of weights and gradients that lie in this process's own memory, to or from which they are copied."""
    shared = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions = line.split()[:2]
        if permissions.endswith("s"):
            begin, end = (int(one, 16) for one in span.split("-"))
            shared.append(range(begin, end))
    tensors = [one for p in model.parameters() for one in (p, p.grad) if one is not None]
    return sum(
        one.numel() * one.element_size() for one in tensors if not any(one.data_ptr() in span for span in shared)
    )


def loading(device: torch.device) -> dict[str, Any]:
    """Arguments for a DataLoader with which a GPU does not wait while Python makes a batch."""
    return {"num_workers": 4, "pin_memory": True} if device.type == "cuda" else {}


class Plain:
    """Batches and steps of plain PyTorch. The watch runs while a batch is loaded."""

    def __init__(self, subject: Subject, model: nn.Module, length: int, watch: Stopwatch) -> None:
        device = next(model.parameters()).device
        loader = DataLoader(subject.samples(length), subject.batch, shuffle=True, **loading(device))
        self.batches: Iterable[Any] = (tuple(one.to(device, non_blocking=True) for one in batch) for batch in loader)
        self._optimizer = subject.optimizer(model, fused=device.type == "cuda")
        self._watch = watch

    def step(self, loss: torch.Tensor) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._watch.start()


class Worker:
    """The same of Paceline. The watch runs while a batch is loaded, and while the package does anything."""

    def __init__(self, subject: Subject, model: nn.Module, length: int, watch: Stopwatch) -> None:
        import paceline

        optimizer = subject.optimizer(model)
        options = {"batch_size": subject.batch, "epochs": 1, **loading(next(model.parameters()).device)}
        job = paceline.join(model, subject.samples(length), optimizer=optimizer, **options)
        self.batches: Iterable[Any] = job
        self._job = job
        self._watch = watch

    def step(self, loss: torch.Tensor) -> None:
        self._watch.start()
        self._job.step(loss)


def main() -> None:
    side, name, turns, folder, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5]
    subject = subjects(device != "cpu")[name]
    length = iterations(subject.block, turns) * subject.batch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, watch, outside = subject.make().to(device), Stopwatch(), 0
    training = (Plain if side == "plain" else Worker)(subject, model, length, watch)
    gates = Gates(folder, subject.block, finish=torch.cuda.synchronize if device != "cpu" else None)
    for iteration, (x, y) in enumerate(training.batches):
        watch.stop()
        gates.arrive()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device != "cpu"):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        if iteration == 1:
            outside = outside_shared_memory(model)
        training.step(loss)
    said = {
        "between_ms": watch.mean_ms(),
        "outside": outside,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    (folder / "said.json").write_text(json.dumps(said))


main()
