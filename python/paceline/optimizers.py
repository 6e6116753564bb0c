"""A torch.optim optimizer as the servers' own: its kind, its numbers, its groups of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .errors import PacelineError, kind_of
from .inventory import PARAMETER, Inventory

Message = dict[str, Any]
Group = dict[str, Any]

# Keys that describe a group, and not its step.
_NAMING = ("lr", "initial_lr", "params", "param_names", "name")
# Keys that say how PyTorch computes a step, and do not change it.
_MANNER = ("foreach", "fused", "capturable", "differentiable", "use_triton")
# The settings of a Lion that the servers know, besides its rate.
_LION = ("betas", "weight_decay")
# Options that do nothing at another number than 0: a Lion's decay is decoupled.
_NEUTRAL = {"cautious_factor": 1, "weight_decouple": True}


def read_optimizer(
    optimizer: Any,
    inventory: Inventory,
    scheduled: bool,
    clip: float | None,
    behind: Mapping[int, float] | None = None,
) -> Message:
    """The `optimizer` of a model message. behind: OptimizerState.behind."""
    message: Message = {}
    if optimizer is not None:
        groups: list[Group] | None = getattr(optimizer, "param_groups", None)
        if groups is None:
            raise PacelineError(
                f"optimizer= takes one optimizer of torch.optim, and not {kind_of(optimizer)}; give join() one"
                + (", with a group of parameters for each" if isinstance(optimizer, (list, tuple, dict)) else "")
            )
        numbers = _numbers_of(optimizer)
        _refuse_differences(groups)
        if not scheduled and any("initial_lr" in group for group in groups):
            raise PacelineError(_no_schedule(optimizer))
        rates = [_rate(group, scheduled) for group in groups]
        base = next((rate for rate in rates if rate > 0), None)
        if base is None:
            raise PacelineError(
                "the optimizer's learning rate is 0; make it with the rate to train with, lr= above 0"
            )
        said = [numbers(group) for group in groups]
        message = {**said[0], "lr": base}
        listed = _groups(groups, [rate / base for rate in rates], said, inventory, behind or {})
        if listed:
            message["group"] = listed
    if clip is not None:
        if not float(clip) > 0:
            raise PacelineError(f"clip = {clip} is not the largest norm of a gradient; it is more than 0")
        message["clip"] = float(clip)
    return message


def _no_schedule(optimizer: Any) -> str:
    """A loaded state has an initial_lr, too, if the program that saved it had a scheduler."""
    way = 'write schedule= (and schedule_per="step" if it counts steps)'
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched") or hasattr(step, "_with_counter"):  # the latter before PyTorch 2.4
        return f"the optimizer has a scheduler, which join() was not given, so its rate would not change; {way}"
    return (
        "the optimizer's groups have an initial_lr, from a scheduler or from a loaded state of an optimizer that had "
        f"one, and join() was not given a scheduler; {way}, or group.pop('initial_lr') in each group to keep the rate"
    )


def _rate(group: Group, scheduled: bool) -> float:
    """With a scheduler, the first rate belongs to the schedule and not to the optimizer."""
    return float(group["initial_lr"] if scheduled and "initial_lr" in group else group["lr"])


def _numbers_of(optimizer: Any) -> Callable[[Group], Message]:
    kind = type(optimizer)
    own = kind.__module__.startswith("torch.optim")
    torchs = {
        "SGD": _sgd,
        "Adam": _adam,
        "AdamW": _adamw,
        "Adamax": _adamax,
        "RMSprop": _rmsprop,
        "Adafactor": _adafactor,
    }
    # Each Lion has its own options, and lists them.
    options = [name for name in getattr(optimizer, "defaults", {}) if name not in _LION + _NAMING + _MANNER]
    known = torchs if own else {"Lion": lambda group: _lion(group, options)}
    if kind.__name__ not in known:
        raise PacelineError(
            f"the servers cannot step with {kind.__module__}.{kind.__name__}; give join() SGD, Adam, AdamW, Adamax, "
            "RMSprop or Adafactor of torch.optim or a Lion, or leave optimizer= out and write [optimizer] in the job "
            "file"
        )
    return known[kind.__name__]


def _sgd(group: Group) -> Message:
    _refuse(group, "SGD", "maximize", "dampening")
    message: Message = {"name": "sgd", "momentum": float(group["momentum"]), **_decay(group)}
    if group["nesterov"]:
        message["nesterov"] = True
    return message


def _adam(group: Group) -> Message:
    _refuse(group, "Adam", "maximize", "amsgrad")
    name = "adamw" if group.get("decoupled_weight_decay") else "adam"
    return {"name": name, **_betas(group), "epsilon": float(group["eps"]), **_decay(group)}


def _adamw(group: Group) -> Message:
    _refuse(group, "AdamW", "maximize", "amsgrad")
    return {"name": "adamw", **_betas(group), "epsilon": float(group["eps"]), **_decay(group)}


def _adamax(group: Group) -> Message:
    _refuse(group, "Adamax", "maximize")
    return {"name": "adamax", **_betas(group), "epsilon": float(group["eps"]), **_decay(group)}


def _rmsprop(group: Group) -> Message:
    _refuse(group, "RMSprop", "maximize", "centered")
    numbers = {"alpha": float(group["alpha"]), "epsilon": float(group["eps"]), "momentum": float(group["momentum"])}
    return {"name": "rmsprop", **numbers, **_decay(group)}


def _adafactor(group: Group) -> Message:
    _refuse(group, "Adafactor", "maximize")
    least_square, least_scale = group["eps"]
    if least_square is not None:
        wanted = f"write eps=(None, {least_scale})"
        raise PacelineError(f"the servers cannot step with Adafactor(eps={group['eps']}); {wanted}")
    numbers = {"decay_power": -float(group["beta2_decay"]), "epsilon": float(least_scale)}
    return {"name": "adafactor", **numbers, "threshold": float(group["d"]), **_decay(group)}


def _lion(group: Group, options: Sequence[str]) -> Message:
    _refuse(group, "Lion", *options)
    return {"name": "lion", **_betas(group), **_decay(group)}


def _betas(group: Group) -> Message:
    return {"beta1": float(group["betas"][0]), "beta2": float(group["betas"][1])}


def _decay(group: Group) -> Message:
    return {"weight_decay": float(group.get("weight_decay", 0))}


def _refuse(group: Group, name: str, *options: str) -> None:
    for option in options:
        value = group.get(option)
        if value is not None and value != _NEUTRAL.get(option, 0):
            raise PacelineError(f"the servers cannot step with {name}({option}={group[option]}); leave {option} out")


def _refuse_differences(groups: list[Group]) -> None:
    """Numbers may differ from group to group; the kind of optimizer may not."""
    for number, group in enumerate(groups[1:], 2):
        for key, value in group.items():
            if not isinstance(value, bool) or key in _NAMING + _MANNER:
                continue
            if value != groups[0].get(key):
                raise PacelineError(
                    f"group {number} of the optimizer has {key} = {value} and the first one {groups[0].get(key)}; "
                    "groups may differ in numbers only"
                )


def _groups(
    groups: list[Group],
    rates: list[float],
    said: list[Message],
    inventory: Inventory,
    behind: Mapping[int, float],
) -> list[Message]:
    """The groups that differ from the first one, with only the numbers that differ; one for each number of steps."""
    names = {id(entry.tensor): entry.name for entry in inventory.entries if entry.kind == PARAMETER}
    in_model = {id(parameter) for parameter in inventory.model.parameters()}
    listed: list[Message] = []
    for group, rate, numbers in zip(groups, rates, said):
        mine: dict[float, list[str]] = {}
        for parameter in group["params"]:
            if id(parameter) not in in_model:
                raise PacelineError(
                    f"the optimizer has a parameter of shape {list(parameter.shape)} that is not the model's; "
                    "make the optimizer of the parameters of the model that join() gets"
                )
            if id(parameter) in names:  # others are frozen
                mine.setdefault(behind.get(id(parameter), 0), []).append(names.pop(id(parameter)))
        differs = {key: value for key, value in numbers.items() if value != said[0][key]}
        if rate != 1:
            differs["rate"] = rate
        for steps, tensors in mine.items():
            own = {**differs, "steps_behind": steps} if steps else differs
            if own:
                listed.append({"tensors": tensors, **own})
    if names:
        # The program's optimizer would leave these as they are.
        listed.append({"tensors": list(names.values()), "rate": 0.0, "weight_decay": 0.0})
    return listed
