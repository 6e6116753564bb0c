"""The free memory of cards of this host, in bytes.

A process of its own asks the CUDA driver. It has a context on each card that it is asked about, as a stage will have,
and ends with it. It sees the cards that this process saw at first: a framework may have left this one one card. It
imports no PyTorch.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import torch

_SECONDS = 60.0
_OUT_OF_MEMORY = 2  # the driver's number


def cards_of(library: str, environment: Mapping[str, str], only: str = "") -> list[tuple[str, int]]:
    """The UUID and the free memory of each. Nothing if the driver does not answer: then nobody knows.

    only: the UUID of the one card that is asked about. A context on another card would take memory there, from what
    the workers of that card find free.
    """
    from .devices import VISIBLE, instances

    words = [sys.executable, "-I", os.path.abspath(__file__), library, only]
    each: list[tuple[str, int]] = []
    # A process sees one MIG instance.
    for one in [{**environment, VISIBLE: name} for name in instances(environment)] or [{**environment}]:
        try:
            asked = subprocess.run(words, env=one, capture_output=True, timeout=_SECONDS, check=True)
            each += [(str(card), int(free)) for card, free in json.loads(asked.stdout)]
        except (OSError, ValueError, subprocess.SubprocessError):
            return []
    return each


def free_memory(library: str, environment: Mapping[str, str]) -> list[int]:
    return [free for _, free in cards_of(library, environment)]


def own_card_memory(device: torch.device) -> dict[str, Any] | None:
    """The card that this process computes on, and what it has free; None if it is none, or if nobody knows."""
    import torch

    from . import device_memory, devices
    from .errors import PacelineError

    if device.type == "cuda" and torch.version.cuda is None:
        return None  # AMD's cards go by the same name in PyTorch
    library = os.environ.get(device_memory.VARIABLE) or (device_memory.USUAL_DRIVER if device.type == "cuda" else "")
    try:
        card = device_memory.card_of(device) if library else None
        if card is None:
            return None
        own = device_memory.driver().uuid_of(card)
    except PacelineError:
        return None
    free = dict(cards_of(library, devices.environment_at_first(), only=own)).get(own)
    if free is None:
        return None
    if device.type == "cuda" and cast(Any, torch.cuda).is_initialized():
        free += torch.cuda.memory_reserved(device)  # the model, which a stage may not need here
    return {"card": own, "free": max(1, free)}  # 0 would mean that nobody knows


def free_memory_in_turn(device: torch.device) -> list[int]:
    """In the order in which workers take the cards; nothing if they compute on none. device: that of this process."""
    import torch

    from . import device_memory, devices

    on_card = device.type == "cuda"
    if not on_card and not devices.is_stand_in():
        return []
    library = os.environ.get(device_memory.VARIABLE) or (device_memory.USUAL_DRIVER if on_card else "")
    each = free_memory(library, devices.environment_at_first()) if library else []
    if not on_card or not each:
        return each
    cards = torch.cuda.device_count()
    if cast(Any, torch.cuda).is_initialized():  # this process will have ended by then
        for card in range(min(cards, len(each))):
            each[card] += torch.cuda.memory_reserved(card)
    asked = os.environ.get(devices.VARIABLE)
    named = torch.device(asked).index if asked else None
    if named is None and cards == len(each) and device.index not in (None, devices.number_of_gpu(cards)):
        named = device.index  # the program names it for all workers
    return each if named is None or named >= len(each) else [each[named]]


def _ask(library: str, only: str) -> list[tuple[str, int]]:
    driver = ctypes.CDLL(library)

    def call(function: str, *arguments: object, full_is: int = 0) -> bool:
        code = getattr(driver, function)(*arguments)
        if code not in (0, full_is):
            sys.exit(f"{function}: {code}")
        return bool(code == 0)

    call("cuInit", ctypes.c_uint(0))
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    each = []
    for card in range(count.value):
        call("cuDeviceGetUuid_v2", number := (ctypes.c_ubyte * 16)(), ctypes.c_int(card))
        name = f"GPU-{uuid.UUID(bytes=bytes(number))}"
        if only not in ("", name):
            continue
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        # A card that is too full for a context is full, and the others are as they are. Other errors say nothing
        # about memory: this process's parent may have an exclusive card.
        if call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(card), full_is=_OUT_OF_MEMORY):
            call("cuCtxSetCurrent", context)
            call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        each.append((name, free.value))
    return each


if __name__ == "__main__":
    print(json.dumps(_ask(*sys.argv[1:])))
