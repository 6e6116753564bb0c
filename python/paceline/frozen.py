"""The tensors of a model that nobody trains: frozen parameters, and large constant buffers.

They stay in the program's own memory, on the device that has them. Each process of a job builds or loads them itself,
and says their digests, so that processes with other values are noticed.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .digests import block_sums, blocks_at_once, digest
from .errors import PacelineError
from .inventory import TYPE_NAMES, Entry
from .tensor_file import TYPES, Named, TensorFile, TensorFileWriter
from .write_watch import written_to

_SMALL = 1024 * 1024  # bytes
VALUES, DIGESTS = "frozen.safetensors", "frozen.json"  # in a run's folder


class Frozen:
    """`may_write`: the program, to its weights."""

    def __init__(self, entries: Sequence[Entry], may_write: bool = False) -> None:
        self._entries = list(entries)
        self._may_write = may_write
        self._sums: list[torch.Tensor] = []  # sums of each entry, on its device
        self._checked = (0, 0)  # the entry and the block that are looked at next
        # Names, and whether a part of these was written to: numbers on the device that nobody has read.
        self._looks: list[tuple[str, torch.Tensor]] = []
        self._digests: dict[str, str] = {}
        self._writer: TensorFileWriter | None = None
        self._folder = ""  # a folder that is to have the values when the job is done
        self._values: list[Named] = []
        self._told = False  # whether a line has said that they cannot be written

    def load(self, file: str, folder: str) -> None:
        """The values of `file`, as far as it has them. A run that goes on may have its own copy in `folder`."""
        if not self._entries:
            return
        kept = os.path.join(folder, VALUES) if folder else ""
        if not os.path.exists(file) and kept and os.path.exists(kept):
            file = kept
        try:
            values = TensorFile(file)
        except OSError as error:
            raise PacelineError(
                f"{file}: cannot be read ({error.strerror}), and the job's frozen tensors are those of this file; "
                "put it there on every host"
            ) from error
        with torch.no_grad():
            for entry in self._entries:
                if entry.name not in values:
                    continue
                dtype, shape = values.type(entry.name), tuple(values.shape(entry.name))
                if (dtype, shape) != (TYPES[entry.dtype], entry.shape):
                    raise PacelineError(
                        f"{file}: tensor {entry.name!r} is of type {dtype} and shape {list(shape)}, and of "
                        f"{TYPES[entry.dtype]} and {list(entry.shape)} in the model; name a file of this model"
                    )
                entry.tensor.data.copy_(values.view(entry.name, entry.dtype))

    def message(self, with_digests: bool) -> list[dict[str, Any]]:
        """The list that the message `model` has."""
        digests = self.digests() if with_digests else {}
        return [
            {
                "name": entry.name,
                "shape": list(entry.shape),
                "dtype": TYPE_NAMES[entry.dtype],
                **({"digest": digests[entry.name]} if with_digests else {}),
            }
            for entry in self._entries
        ]

    def digests(self) -> dict[str, str]:
        """One digest for each tensor, by its name."""
        if not self._digests:
            self._sums = [block_sums(entry.tensor) for entry in self._entries]
            self._digests = {entry.name: digest(entry.tensor, sums) for entry, sums in zip(self._entries, self._sums)}
        return self._digests

    def compare(self, folder: str) -> None:
        """Raises an error if the run in `folder` began with other values."""
        try:
            with open(os.path.join(folder, DIGESTS), encoding="utf-8") as file:
                before = dict(json.load(file))
        except (OSError, ValueError):
            return
        others = [name for name, one in self.digests().items() if before.get(name, one) != one]
        if others:
            some = f"{others[0]} and {len(others) - 1} more tensors are" if len(others) > 1 else f"{others[0]} is"
            is_kept = os.path.exists(os.path.join(folder, VALUES))
            raise PacelineError(
                f"{some} frozen, with other values in this process than when the run began; before join(), load the "
                "same file as then, or seed the model (torch.manual_seed) before you build it"
                + (
                    f"; if another processor or another PyTorch computes them now: paceline export {folder} "
                    "model.safetensors, then --resume with --set model.weights=model.safetensors"
                    if is_kept
                    else ""
                )
            )

    def keep(self, folder: str, values: bool, first: bool) -> None:
        """Remembers which values the run's folder is to have, if any.

        first: the host's first worker, which leaves the digests there, and begins to write the values. If it is
        killed before it has written them, another worker does so at the end.
        """
        if not self._entries:
            return
        if values and not (self._may_write and not first):  # the others have written to their weights by then
            self._folder = folder
            # A small buffer may count something, and is to be written as it is now.
            self._values = [(entry.name, _as_now(entry)) for entry in self._entries]
        if not first:
            return
        self.compare(folder)
        path = os.path.join(folder, DIGESTS)
        if not os.path.exists(path):
            # A folder may be another person's, who could have made a link to some file of this user.
            partial = f"{path}.{uuid.uuid4().hex}"
            new = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with open(new, "w", encoding="utf-8") as file:
                json.dump(self.digests(), file, indent=1)
            os.replace(partial, path)
        if values:
            self._writer = TensorFileWriter(os.path.join(folder, VALUES), self._values)
            if self._may_write:
                self._writer.finish()
                self._writer, self._folder = None, ""

    def stepped(self) -> None:
        """A step was sent, and the program has a moment."""
        if self._writer is not None:
            self._writer.go_on()
            if not self._told and (failed := self._writer.failure()) is not None:
                self._told = True
                _tell(f"{failed}; the next try is at the end of the job")

    def finish(self, job_is_done: bool) -> None:
        """Writes what is left, and tries once more if that failed.

        An error is only told, because the program still has work of its own.
        """
        writer, self._writer = self._writer, None
        failed = None if writer is None else _failure_of(writer.finish)
        path = os.path.join(self._folder, VALUES)
        if job_is_done and self._folder and not os.path.exists(path):
            failed = _failure_of(lambda: TensorFileWriter(path, self._values).finish())
        if failed is not None:
            _tell(str(failed))

    def check(self, waits: bool) -> None:
        """Looks at a part of one frozen parameter, another one each time.

        waits: whether the step waits for the device in any case. Then this reads what the device has found, in this
        call and in those before it. Raises an error if a part was written to.

        Most writes show at once (write_watch.py); this one finds those that PyTorch does not count.
        """
        if self._may_write or not self._sums:
            return
        index, block = self._checked
        entry, sums = self._entries[index], self._sums[index]
        count = blocks_at_once(entry.tensor.device)
        if not entry.is_buffer:
            now = block_sums(entry.tensor, block, count)
            self._looks.append((entry.name, (now != sums[block : block + count]).any()))
        block += count
        if entry.is_buffer or block >= len(sums):
            self._checked = ((index + 1) % len(self._entries), 0)
        else:
            self._checked = (index, block)
        if waits:
            self.read_looks()

    def read_looks(self) -> None:
        """Waits for the device. Raises an error if a part that check() has looked at was written to."""
        looks, self._looks = self._looks, []
        for name, was_written_to in looks:
            if bool(was_written_to):
                raise written_to(name)


def _failure_of(write: Callable[[], None]) -> PacelineError | None:
    try:
        write()
    except PacelineError as error:
        return error
    return None


def _tell(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr, flush=True)


def _as_now(entry: Entry) -> torch.Tensor:
    tensor = entry.tensor.detach()
    return tensor.clone() if entry.is_buffer and tensor.numel() * tensor.element_size() <= _SMALL else tensor
