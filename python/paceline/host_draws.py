"""Random numbers that the host draws for another device.

Two kinds of device draw other numbers from one seed, and so do two cards with other numbers of processors. Stages
that compute the same lines of a program on such devices draw on the host, and agree.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operations that fill or make a tensor, whatever its values were.
_BY_SIZE = {
    *("rand_like", "randn_like", "randint_like", "normal_", "uniform_", "bernoulli_", "random_", "exponential_"),
    *("cauchy_", "log_normal_", "geometric_"),
}
_DRAWS = _BY_SIZE | {
    *("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "binomial"),
    *("rrelu_with_noise", "rrelu_with_noise_", "_standard_gamma", "_sample_dirichlet", "native_dropout"),
}


def draws_otherwise(device: torch.device) -> bool:
    """Whether the device's generator draws other numbers than the host's."""
    return device.type not in ("cpu", "meta")


class HostDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which numbers for other devices come from the host's generator.

    Draws with a generator of the program's own stay as they are, and so do fused kernels that draw inside.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        values = [*args, *kwargs.values()]
        if name not in _DRAWS or any(isinstance(one, torch.Generator) for one in values):
            return func(*args, **kwargs)
        tensors = [one for one in values if isinstance(one, torch.Tensor)]
        device = torch.device(kwargs.get("device") or (tensors[0].device if tensors else "cpu"))
        if not draws_otherwise(device) or any(one.layout != torch.strided for one in tensors):
            return func(*args, **kwargs)
        return _dropped_out(*args) if name == "native_dropout" else _drawn(func, name, args, kwargs, device)


def _drawn(func: Any, name: str, args: Any, kwargs: Any, device: torch.device) -> Any:
    """The operation, on twins of its tensors in the host's memory."""
    written: list[tuple[torch.Tensor, torch.Tensor]] = []

    def twin(value: Any, argument: Any, is_read: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # With the same strides: they decide in which order numbers are drawn.
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
        if is_read:
            made.copy_(value)
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append((made, value))
        return made

    arguments = func._schema.arguments
    by_name = {one.name: one for one in arguments}
    twins = [twin(one, arguments[index], index > 0 or name not in _BY_SIZE) for index, one in enumerate(args)]
    named = {key: twin(one, by_name[key], True) for key, one in kwargs.items()}
    if "device" in named:
        named["device"] = torch.device("cpu")
    result = func(*twins, **named)
    for made, value in written:
        value.copy_(made, non_blocking=True)
        if made is result:
            return value
    return result.to(device, non_blocking=True)


def _dropped_out(tensor: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """A processor's dropout, computed on the tensor's device; only the mask comes from the host."""
    drawn = torch.empty_like(tensor, dtype=torch.bool, device="cpu")
    mask = (drawn.fill_(True) if train is False else drawn.bernoulli_(1 - p)).to(tensor.device, non_blocking=True)
    if train is False or p == 1:
        return tensor * mask, mask
    return tensor * mask.to(tensor.dtype).div_(1 - p), mask
