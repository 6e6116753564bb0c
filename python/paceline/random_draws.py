"""The operations of a forward pass that draw random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .seeding import mix, seed_step

# Functions that draw as many numbers as their argument has. A name may also end with "_".
DRAW = {
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"),
    *("native_dropout", "bernoulli", "normal", "poisson", "multinomial", "rrelu", "gumbel_softmax", "rand_like"),
    *("randn_like", "randint_like", "uniform", "exponential", "random", "cauchy", "log_normal", "geometric"),
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
}


class Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that notes the operations in it that draw random numbers, on every device: on meta, too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: set[str] = set()  # "aten::bernoulli_"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            self.draws(func._schema.name)
        return func(*args, **(kwargs or {}))

    def draws(self, operation: str) -> None:
        self.operations.add(operation)


class SeededBetween(TorchFunctionMode):
    """A context in which the numbers behind a dropout between two blocks do not follow from how many it has drawn.

    A stub draws none.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self.in_block = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.in_block or getattr(func, "__name__", "").rstrip("_") not in DRAW:
            return func(*args, **(kwargs or {}))
        seed = self._state()
        result = func(*args, **(kwargs or {}))
        seed_step(seed, self._device, others=False)
        return result

    def _state(self) -> int:
        states = [torch.default_generator.get_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return mix(*(int(state.view(torch.int64).sum()) for state in states))
