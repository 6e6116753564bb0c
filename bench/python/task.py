"""The training of `./dev bench ddp`, the same under both: a small network on MNIST's test images, halved."""

from __future__ import annotations

import gzip
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

TRAINED = 4992  # a multiple of all that the devices take at a time; the other 5,008 are held out
MOMENTUM, BATCH = 0.9, 32
EVALUATIONS = 24  # about this many in a training


def _read(path: Path, header: int) -> torch.Tensor:
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def _mnist(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    images = _read(folder / "t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    return (images.float() / 255 - 0.1307) / 0.3081, _read(folder / "t10k-labels-idx1-ubyte.gz", 8).long()


def _made_up() -> tuple[torch.Tensor, torch.Tensor]:
    """Ten patterns under noise, where MNIST is not there: about as hard."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 10, (10000,), generator=generator)
    patterns = torch.randn(10, 1, 28, 28, generator=generator)
    return patterns[labels] + 6 * torch.randn(10000, 1, 28, 28, generator=generator), labels


def data(folder: Path) -> tuple[TensorDataset, TensorDataset]:
    """The samples to train on, and those that are held out."""
    images, labels = _mnist(folder) if folder.exists() else _made_up()
    return TensorDataset(images[:TRAINED], labels[:TRAINED]), TensorDataset(images[TRAINED:], labels[TRAINED:])


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def optimizer_of(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)


def falling(part: float) -> float:
    """The factor of the rate when this part of the training is done: a cosine, like Paceline's."""
    return (1 + math.cos(math.pi * part)) / 2


def accuracy(model: nn.Module, held_out: TensorDataset) -> float:
    images, labels = held_out.tensors
    right = 0
    with torch.no_grad():
        for at in range(0, len(labels), 250):
            scores: torch.Tensor = model(images[at : at + 250])
            right += int((scores.argmax(1) == labels[at : at + 250]).sum())
    return right / len(labels)


@dataclass
class Pacer:
    """Makes this process a device that takes so long for a batch, under DDP as under Paceline.

    It sleeps between the forward and the backward pass, so that DDP may send gradients while the backward pass
    goes on, as it does on a slow device. A backward pass is taken to be twice as long as a forward pass, and is
    within the time of the batch.
    """

    ms_a_batch: float  # 0: as fast as it is

    def begin(self) -> None:
        self._since = time.monotonic()

    def wait(self, samples: int) -> None:
        now = time.monotonic()
        rest = self._since + self.ms_a_batch / 1e3 * samples / BATCH - now - 2 * (now - self._since)
        if rest > 0:
            time.sleep(rest)


@dataclass
class Settings:
    """The settings of both programs, as words of their command line."""

    seed: int
    epochs: int
    rate: float
    paces: list[float]  # one a device, in milliseconds a batch
    throttled: int  # the device that is held back; -1: none
    folder: Path  # the folder for results
    data: Path

    def words(self) -> list[str]:
        paces = ",".join(str(pace) for pace in self.paces)
        words = [self.seed, self.epochs, self.rate, paces, self.throttled, self.folder, self.data]
        return [str(word) for word in words]


def settings() -> Settings:
    seed, epochs, rate, paces, throttled, folder, data = sys.argv[1:8]
    return Settings(
        seed=int(seed),
        epochs=int(epochs),
        rate=float(rate),
        paces=[float(pace) for pace in paces.split(",")],
        throttled=int(throttled),
        folder=Path(folder),
        data=Path(data),
    )
