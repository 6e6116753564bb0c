"""The operations of a forward pass that draw random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .host_draws import HostDraws
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


# Functions that draw as many numbers as they are told, and those of PyTorch's own that call such ones.
_DRAW_MORE = {
    *("rand", "randn", "randint", "randperm", "binomial", "_standard_gamma", "_sample_dirichlet", "rrelu_with_noise"),
    *("fractional_max_pool2d", "fractional_max_pool3d", "kaiming_uniform", "kaiming_normal", "trunc_normal"),
    *("fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices", "svd_lowrank", "pca_lowrank"),
}


_is_compiling: Any = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


class OutsideBlocks(TorchFunctionMode):
    """A context in which a pass draws the same numbers outside its blocks in every stage.

    on_host: the host draws them, as stages may be on two kinds of device.
    reseeds: numbers behind a dropout between two blocks do not follow from how many it has drawn. A stub draws none.
    """

    def __init__(self, device: torch.device, on_host: bool, reseeds: bool) -> None:
        super().__init__()
        self._device = device
        self._on_host = on_host
        self._reseeds = reseeds
        self._in_block = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_compiling():  # PyTorch compiles this, too
            return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").rstrip("_")
        if name == "backward" or func is torch.autograd.grad:
            with _entered_by_engine(self):
                return func(*args, **(kwargs or {}))
        if self._in_block or not (name in DRAW or (self._on_host and name in _DRAW_MORE)):
            return func(*args, **(kwargs or {}))
        seed = _host_state() if self._reseeds and name in DRAW else None
        with HostDraws() if self._on_host else contextlib.nullcontext():
            result = func(*args, **(kwargs or {}))
        if seed is not None:
            seed_step(seed, self._device, others=False)
        return result

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Around a block, which only one stage computes: it draws on its device, and without this context's time."""
        current = getattr(overrides, "_get_current_function_mode", None)
        on_top = current is not None and current() is self  # else the program is in a context of its own, too
        context: Any = self
        self._in_block = True
        if on_top:
            context.__exit__(None, None, None)
        try:
            yield
        finally:
            if on_top:
                context.__enter__()
            self._in_block = False


class _Engine:
    """PyTorch's engine of backward passes, in a context."""

    def __init__(self, engine: Any, context: OutsideBlocks) -> None:
        self._engine = engine
        self._context = context

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        with self._context:
            return self._engine.run_backward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@contextlib.contextmanager
def _entered_by_engine(context: OutsideBlocks) -> Iterator[None]:
    """PyTorch has left the context, and gradient checkpointing calls parts of the program again."""
    variable: Any = torch.autograd.Variable
    engine = variable._execution_engine
    variable._execution_engine = _Engine(engine, context)
    try:
        yield
    finally:
        variable._execution_engine = engine


def _host_state() -> int:
    return mix(int(torch.default_generator.get_state().view(torch.int64).sum()))
