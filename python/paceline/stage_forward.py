"""The program's own forward pass, for a run of the model's blocks.

While it runs, each block's forward() is replaced. Blocks before the run give stubs. The first block of the run gets
the activations that another stage sent. The call of the first block after the run ends the pass. The program computes
everything before, between and after the blocks as always.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Callable

import torch

from .absent_weights import Place, make_absent
from .blocks import Block
from .errors import PacelineError
from .host_draws import draws_otherwise
from .random_draws import OutsideBlocks
from .seeding import mix, seed_step
from .stubs import Scope, Stub, make_stub
from .trees import Path, at, leaves, replaced

_ODD = 0x9E3779B97F4A7C15


class Ended(BaseException):
    """The stage has computed its blocks. Not an Exception: a program's own `except Exception` shall not stop it."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__("a stage's forward pass has ended")
        self.tensors = tensors


class Seams:
    """The places between blocks: the form of each block's output, and where activations are in a block's arguments.

    Blocks are numbered as they are called.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = list(blocks)
        self.outputs: list[Any] = [None] * len(self.blocks)  # trees of tensors
        self.paths: dict[int, list[Path]] = {}  # in (args, kwargs)
        self.others_draw = True  # the blocks use random numbers that are not torch's
        self.draws_between = False  # something is drawn behind a dropout between two blocks


class _Handover(torch.autograd.Function):
    """The activation as a tensor that a block may write to, unlike the leaf that gets its gradient."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.data

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


hand_over: Any = _Handover.apply


class StageForward:
    """Use as a context around the forward pass, and, with recompute(), around its backward pass.

    It serves one pass after the other: begin_with() says of which micro-batch.
    """

    def __init__(
        self,
        seams: Seams,
        begin: int,
        end: int,
        received: Sequence[torch.Tensor] = (),
        seed: int | None = None,
        device: torch.device | None = None,
        absent: Sequence[Place] = (),
    ) -> None:
        """device: where it computes. absent: weights outside the blocks that this stage does not hold."""
        self._seams = seams
        self._absent = absent
        self._begin = begin
        self._end = end
        self._device = device or torch.device("cpu")
        self._originals: list[tuple[Any, bool, Any]] = []
        self._outside: Any = None  # OutsideBlocks, while it is a context
        self._replacements = [self._replacement(index, block) for index, block in enumerate(seams.blocks)]
        self.begin_with(received, seed)

    def begin_with(self, received: Sequence[torch.Tensor], seed: int | None) -> StageForward:
        """For the passes of one micro-batch, with the activations that another stage sent."""
        self._received = received
        self._seed = None if seed is None else mix(seed)
        self._scope = Scope(is_open=self._begin > 0)  # the scope of its stubs
        self.recomputes = False
        return self

    def recompute(self) -> StageForward:
        """For the backward pass, in which gradient checkpointing calls blocks again."""
        self.recomputes = True
        return self

    def __enter__(self) -> StageForward:
        on_host, reseeds = draws_otherwise(self._device), self._seams.draws_between
        if self._seed is not None and (on_host or reseeds):
            self._outside = OutsideBlocks(self._device, on_host, reseeds)
            self._outside.__enter__()
        for block, replacement in zip(self._seams.blocks, self._replacements):
            own = block.module.__dict__
            self._originals.append((own, "forward" in own, block.module.forward))
            own["forward"] = replacement
        for place in self._absent:
            place.put(make_absent(place.weight, place.name, place.number, self._scope))
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if self._outside is not None:
            self._outside.__exit__(kind, *error)
            self._outside = None
        for own, had_own, original in reversed(self._originals):
            if had_own:
                own["forward"] = original
            else:
                own.pop("forward", None)
        self._originals = []
        self._received = ()  # the replaced methods refer to this object, so only the garbage collector frees it
        for place in self._absent:
            place.put(place.weight)
        if kind is None and not self.recomputes and self._end < len(self._seams.blocks):
            raise self._not_called(self._end)

    def _not_called(self, index: int) -> PacelineError:
        return PacelineError(
            f"the loss of this micro-batch did not call {self._seams.blocks[index].name}, which begins a stage; set "
            "layerdrop to 0, and call each block once for each micro-batch"
        )

    def _replacement(self, index: int, block: Block) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self.recomputes:
                if index == self._end:
                    raise Ended(self.sent((args, kwargs)))
                if index > self._end or (index > self._begin and self._scope.is_open):
                    raise self._not_called(self._begin if self._scope.is_open else self._end)
            if index < self._begin:
                output = replaced(
                    self._seams.outputs[index],
                    lambda _, found: make_stub(block.name, self._scope, found.dtype, self._device),
                )
            else:
                if index == self._begin > 0:
                    self._scope.is_open = False
                    args, kwargs = self.with_received(args, kwargs)
                self._draw(2 * block.number + 1)
                output = self._call_block(index, args, kwargs)
            self._draw(2 * block.number + 2)
            return output

        return forward

    def _call_block(self, index: int, args: Any, kwargs: Any) -> Any:
        with contextlib.nullcontext() if self._outside is None else self._outside.left():
            return self._originals[index][2](*args, **kwargs)

    def sent(self, arguments: Any) -> list[torch.Tensor]:
        return [at(arguments, path) for path in self._seams.paths[self._end]]

    def with_received(self, args: Any, kwargs: Any) -> Any:
        paths = self._seams.paths[self._begin]
        handed = {path: hand_over(leaf) if leaf.requires_grad else leaf for path, leaf in zip(paths, self._received)}
        return replaced((args, kwargs), lambda path, tensor: handed.get(path, tensor))

    def _draw(self, part: int) -> None:
        """From here on random numbers follow from the batch and the block, so a new cut changes none of them."""
        self._scope.drew = False
        if self._seed is not None:
            seed_step(self._seed + part * _ODD, self._device, self._seams.others_draw)


def stub_paths(arguments: Any) -> list[Path]:
    return [path for path, tensor in leaves(arguments) if isinstance(tensor, Stub)]
