"""A program's description of its model for a job of one worker, before the job exists."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import torch

from ._version import PROTOCOL
from .channel import Channel, Message
from .enlisting import DEFAULT_BATCH, DEFAULT_EPOCHS, enlist
from .session import Session
from .wishes import Wishes


class _Notes(Channel):
    """A channel without a peer: it keeps what is written, and the job is over at once."""

    def __init__(self) -> None:
        self.written: list[Message] = []

    def read(self) -> Message | None:
        return {"type": "end", "failed": False}

    def write(self, message: Message) -> bool:
        self.written.append(message)
        return True

    def close(self) -> None:
        pass

    def end_process(self) -> NoReturn:
        raise SystemExit(0)  # describe() goes on


def describe(model: torch.nn.Module, train_set: Any, wishes: Wishes) -> str | None:
    """The assumed `start` and the message `model`: one line of JSON each. None if something is wrong.

    The program is asked again then, and says in the usual way what is wrong.
    """
    assumed: dict[str, Any] = {
        "protocol": PROTOCOL,
        "devices": 1,
        "stages": False,
        "settings": {"batch": DEFAULT_BATCH, "epochs": DEFAULT_EPOCHS},
    }
    notes = _Notes()
    asked = Session(notes, "probe", "probe", devices=1, seed=1, settings=assumed["settings"])
    try:
        enlist(asked, model, train_set, wishes)
    except SystemExit:  # a program that was only asked ends
        pass
    except Exception:
        return None
    if [message["type"] for message in notes.written] != ["model"]:
        return None
    try:
        return "\n".join(json.dumps(one, allow_nan=False) for one in (assumed, notes.written[0]))
    except ValueError:  # not a number
        return None
