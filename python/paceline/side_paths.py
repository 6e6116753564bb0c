"""Ways from a block to the loss, or to a later block, that are not the block's return value.

A stage never calls the blocks before its own. What such a block leaves in a list, or in a hook, for an auxiliary loss
is missing there, and so is its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch

from .blocks import Block
from .stage_forward import Seams, StageForward, hand_over
from .trees import leaves, replaced


class SidePaths(StageForward):
    """A pass over the whole model in which no gradient goes through a block's return value.

    The blocks are computed in the order of `seams`. found() finds nothing before PyTorch 2.1, which does not number
    the operations of a pass.
    """

    def __init__(self, seams: Seams, device: torch.device) -> None:
        self._loss = len(seams.blocks)  # its number, behind those of all blocks
        self._spans: dict[int, range] = {}  # numbers of the operations of each block
        self._computed: dict[int, list[torch.Tensor]] = {}  # each block's outputs
        super().__init__(seams, 0, len(seams.blocks), device=device)

    def _replacement(self, index: int, block: Block) -> Callable[..., Any]:
        compute = super()._replacement(index, block)

        def forward(*args: Any, **kwargs: Any) -> Any:
            first = _next_operation()
            output = compute(*args, **kwargs)
            self._spans[index] = range(first, _next_operation())
            self._computed[index] = [tensor for _, tensor in leaves(output)]
            return replaced(output, lambda _, tensor: _cut_off(tensor))

        return forward

    def found(self, loss: torch.Tensor) -> list[tuple[int, int]]:
        """Each block with the later one, or the loss, to which more than its return value leads."""
        users = [*self._computed.items(), (self._loss, [loss])]
        return [(block, user) for user, computed in users for block in sorted(self._blocks_of(user, computed))]

    def _blocks_of(self, user: int, computed: Iterable[torch.Tensor]) -> set[int]:
        """The other blocks whose operations autograd would go back to."""
        found: set[int] = set()
        waiting = [tensor.grad_fn for tensor in computed if tensor.grad_fn is not None]
        seen = set(waiting)
        while waiting:
            node: Any = waiting.pop()
            number = node._sequence_nr() if hasattr(node, "_sequence_nr") else -1
            found.update(block for block, span in self._spans.items() if number in span and block != user)
            before = {one for one, _ in node.next_functions if one is not None} - seen
            seen |= before
            waiting += before
        return found


def _cut_off(tensor: torch.Tensor) -> Any:
    return hand_over(tensor.detach().requires_grad_()) if tensor.requires_grad else tensor


def _next_operation() -> int:
    with torch.enable_grad():
        node: Any = (torch.zeros((), requires_grad=True) * 1).grad_fn
    return int(node._sequence_nr()) + 1 if hasattr(node, "_sequence_nr") else 0
