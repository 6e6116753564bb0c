"""A pass that tries a cut, by a stage of everything behind it."""

from __future__ import annotations

from typing import Any

import torch

from .random_draws import Drawing
from .stage_forward import Seams, StageForward, stub_paths
from .stubs import Scope, StubUsed
from .trees import at


class _Behind(Drawing):  # type: ignore[no-untyped-call]
    """Notes in `seams` whether something is drawn between two blocks, behind what draws for a stub."""

    def __init__(self, scope: Scope, seams: Seams) -> None:
        super().__init__()
        self._scope = scope
        self._seams = seams

    def draws(self, operation: str) -> None:
        self._seams.draws_between = self._seams.draws_between or self._scope.drew


class Searching(StageForward):
    """A stage of the last blocks, which learns where its activations stand in its first block's arguments."""

    def __init__(self, seams: Seams, begin: int, arguments: Any, device: torch.device) -> None:
        super().__init__(seams, begin, len(seams.blocks), device=device)
        self._seams = seams
        self._begin = begin
        self._arguments = arguments
        self._drawing: Any = None

    def __enter__(self) -> StageForward:
        self._drawing = _Behind(self._scope, self._seams)
        self._drawing.__enter__()
        return super().__enter__()

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            super().__exit__(kind, *error)
        finally:
            self._drawing.__exit__(kind, *error)

    def with_received(self, args: Any, kwargs: Any) -> Any:
        paths = stub_paths((args, kwargs))
        if not paths:
            name = self._seams.blocks[self._begin].name
            raise StubUsed(self._seams.blocks[self._begin - 1].name, f"not by {name}", "the end")
        self._seams.paths[self._begin] = paths
        self._received = [at(self._arguments, path).detach() for path in paths]
        return super().with_received(args, kwargs)
