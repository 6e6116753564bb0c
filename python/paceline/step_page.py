"""The page on which the worker and this process's GPU wait for each other (paceline/computing/program/step_page.h).

The GPU's stream waits for the worker's word before a step that was begun early, and writes its own word behind each.
So this process's thread gives the GPU its work in good time, and never waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .channel import Message
from .device_memory import driver
from .file_memory import FileMemory
from .measures import metrics as checked

_BEGUN, _ROW, _DONE, _VALUES = 0, 8, 64, 128  # bytes
VALUES = 32
_WORDS = 32  # words of 4 bytes before the values
_LOOK_SECONDS = 50e-6


class StepPage:
    def __init__(self, memory: FileMemory, device: torch.device) -> None:
        self._words = memory.view(0, _WORDS, torch.int32)
        self._row = memory.view(_ROW, 1, torch.int64)
        self._values = memory.view(_VALUES, VALUES, torch.float64)
        self.device = device
        self._address = 0  # address of the page on the GPU; 0: the model is not on one
        if device.type == "cuda":
            self._address = driver().register(device, self._words.data_ptr(), memory.size)

    def wait(self, number: int) -> None:
        """Whatever is computed from now on begins once step `number` may."""
        if self._address:
            driver().wait_for_word(self.device, self._address + _BEGUN, number)
        else:
            self.wait_on_host(number)

    def wait_on_host(self, number: int) -> None:
        while _behind(int(self._words[_BEGUN // 4]), number):
            time.sleep(_LOOK_SECONDS)

    def row(self) -> torch.Tensor:
        """The row that the worker named, on the model's device. It is read after wait()."""
        return torch.empty_like(self._row, device=self.device).copy_(self._row, non_blocking=True)

    def row_on_host(self) -> int:
        """The same. Requires: wait() is over, for example because a later result is here."""
        return int(self._row[0])

    def done(self, number: int, values: torch.Tensor) -> None:
        """Step `number` is done, with these values, once everything before this call is computed."""
        self._values[: len(values)].copy_(values, non_blocking=True)
        if self._address:
            driver().write_word(self.device, self._address + _DONE, number)
        else:
            self._words[_DONE // 4] = _signed(number)


@dataclass
class Words:
    """The words of one step."""

    page: StepPage
    number: int
    rows: Sequence[int]  # the memories in one of which the weights will be; empty if it is known
    values: list[torch.Tensor] = field(default_factory=list)  # go to the page, beginning at place 1
    metrics: dict[str, int] = field(default_factory=dict)  # the places of metrics

    @staticmethod
    def of(message: Message, page: StepPage) -> Words:
        return Words(page, int(message["number"]), [int(row) for row in message.get("rows", ())])

    def later(self, value: torch.Tensor) -> int:
        """The place where this number will be. It is on the page's device."""
        self.values.append(value.detach().double().reshape(()))
        return len(self.values)

    def places(self, loss: float | torch.Tensor) -> dict[str, Any]:
        """The places of numbers that the device has not computed yet, as `stepped` has them."""
        later: dict[str, Any] = {}
        if isinstance(loss, torch.Tensor):
            later["loss"] = self.later(loss)
        if self.metrics:
            later["metrics"] = self.metrics
        return {"later": later}

    def take(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Gives metrics that are tensors a place, and returns the others. They are on the page's device."""
        others: dict[str, Any] = {}
        for name, value in metrics.items():
            room = len(self.values) + 2 < VALUES  # beside the loss
            if room and isinstance(value, torch.Tensor):
                self.metrics[name] = self.later(value)
            else:
                others[name] = value
        return checked(others)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def _behind(word: int, number: int) -> bool:
    return _signed((word - number) % (1 << 32)) < 0
