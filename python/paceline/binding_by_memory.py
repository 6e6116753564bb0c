"""The binding that fits the memory in which Paceline has a step's weights. A job may change it."""

from __future__ import annotations

from typing import Any, Callable

from .binding import Ahead, Binding, Runs
from .errors import PacelineError
from .host_binding import HostBinding
from .memories import Memories
from .resident_binding import ResidentBinding
from .step_page import Words


class BindingByMemory:
    """`of_files` makes the binding for weights and gradients in files; `resident` if any are in a GPU's memory."""

    def __init__(
        self, memories: Memories, of_files: Callable[[], Binding], resident: Callable[[], ResidentBinding]
    ) -> None:
        self._memories = memories
        self._of_files = of_files
        self._resident = resident
        self.now: Binding | None = None

    def bind(
        self, weights: Runs, gradients: Runs = (), ahead: Ahead | None = None, wanted: set[int] | None = None
    ) -> None:
        """wanted: the entries that a stage computes with, if it may let go of the others; None: all."""
        on_cards = self._memories.on_cards([*weights, *gradients])
        if ahead is not None and not on_cards:
            raise PacelineError("Paceline asks for a look-ahead from weights that lie in a file")
        if self.now is None or on_cards != isinstance(self.now, ResidentBinding):
            self.release()
            self.now = self._resident() if on_cards else self._of_files()
        if isinstance(self.now, ResidentBinding):
            self.now.bind(weights, ahead)
        elif isinstance(self.now, HostBinding):
            self.now.bind(weights, wanted)
        else:
            self.now.bind(weights)

    def bind_last(self, weights: Runs) -> None:
        """Binds the job's last weights, which the model keeps."""
        if isinstance(self.now, HostBinding) and not self._memories.on_cards(weights):
            self.now.bind_last(weights)
        else:
            self.bind(weights)

    def bind_early(self, words: Words) -> None:
        """Does the same as bind() for a step that may not begin yet."""
        assert isinstance(self.now, ResidentBinding), "a step before this one had its weights there"
        self.now.bind_early(words)

    def can_finish_later(self) -> bool:
        return isinstance(self.now, ResidentBinding) and self.now.can_finish_later

    def finish_later(self, words: Words, skipped: bool) -> None:
        assert isinstance(self.now, ResidentBinding)
        self.now.finish_later(words, skipped)

    def before(self, gradients: Runs) -> None:
        assert self.now is not None
        self.now.before(gradients)

    def hand_out(self) -> None:
        assert self.now is not None
        self.now.hand_out()

    def finish(self, skipped: bool = False) -> dict[str, Any]:
        """Returns the keys of the message `stepped` that say whether the gradient is finite."""
        assert self.now is not None
        finite = self.now.finish()
        if isinstance(self.now, ResidentBinding):  # only this process and the servers can read the gradient
            if skipped:
                self.now.contribute_nothing()
                self._memories.settle()
            elif not finite:
                name = self.now.not_finite()
                return {"finite": True} if name is None else {"not_finite": name}
            return {"finite": True}
        return {"finite": True} if finite else {}

    def shared_at(self, address: int) -> str | None:
        return None if self.now is None else self.now.shared_at(address)

    def forget(self) -> None:
        if self.now is not None:
            self.now.forget()

    def release(self) -> None:
        if self.now is not None:
            self.now.release()
            self.now = None
