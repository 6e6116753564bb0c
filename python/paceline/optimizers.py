"""A torch.optim optimizer as the servers' own: its kind, its numbers, its groups of parameters. KINDS has all."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch

from .errors import PacelineError, kind_of
from .inventory import PARAMETER, Inventory

Message = dict[str, Any]
Group = dict[str, Any]

# Keys that describe a group, and not its step.
_NAMING = ("lr", "initial_lr", "params", "param_names", "name")
# Keys that say how PyTorch computes a step, and do not change it.
_MANNER = ("foreach", "fused", "capturable", "differentiable", "use_triton")
# Options that do nothing at another number than 0: a Lion's decay is decoupled.
_NEUTRAL = {"cautious_factor": 1, "weight_decouple": True}


@dataclass(frozen=True)
class Kind:
    """A class of optimizers as one of the servers' own."""

    name: str  # in [optimizer]
    # For each setting of [optimizer], the key of a parameter group that it is read from, and how.
    settings: Mapping[str, tuple[str, Callable[[Any], float]]]
    without: tuple[str, ...]  # options that change the step, which the servers do not have
    # The keys of its state in the servers' order; empty: they cannot go on with a state.
    state: tuple[str, ...]
    counts_steps: bool = False  # a step depends on the number of steps before it
    # Without momentum and decay, a step with a gradient of zero does not move the weight.
    still: bool = False
    # Such a step changes the state.
    forgets: bool = True
    more: Callable[[Group], Message] = lambda group: {}  # settings that are not numbers
    by_steps: tuple[str, ...] = ()  # keys of its state that the number of steps says, which the servers count
    # Whether it is the class of torch.optim alone; else any class of this name, which lists its own options.
    of_torch: bool = True


def _first(pair: Any) -> float:
    return float(pair[0])


def _second(pair: Any) -> float:
    return float(pair[1])


def _negative(number: Any) -> float:
    return -float(number)


def _nesterov(group: Group) -> Message:
    return {"nesterov": True} if group["nesterov"] else {}


def _decoupled(group: Group) -> Message:
    return {"name": "adamw"} if group.get("decoupled_weight_decay") else {}


def _check_eps(group: Group) -> Message:
    least_square, least_scale = group["eps"]
    if least_square is not None:
        wanted = f"write eps=(None, {least_scale})"
        raise PacelineError(f"the servers cannot step with Adafactor(eps={group['eps']}); {wanted}")
    return {}


_BETAS = {"beta1": ("betas", _first), "beta2": ("betas", _second)}
_EPSILON = {"epsilon": ("eps", float)}
_MOMENTUM = {"momentum": ("momentum", float)}
_DECAY = {"weight_decay": ("weight_decay", float)}
_MOMENTS = ("exp_avg", "exp_avg_sq")

# Each optimizer that join() takes, by the name of its class. Each is in paceline/parameters/ps/optimizers/, too.
KINDS: dict[str, Kind] = {
    "SGD": Kind(
        "sgd",
        {**_MOMENTUM, **_DECAY},
        ("maximize", "dampening"),
        ("momentum_buffer",),
        still=True,
        forgets=False,
        more=_nesterov,
    ),
    "Adam": Kind(
        "adam",
        {**_BETAS, **_EPSILON, **_DECAY},
        ("maximize", "amsgrad"),
        _MOMENTS,
        counts_steps=True,
        more=_decoupled,
    ),
    "AdamW": Kind("adamw", {**_BETAS, **_EPSILON, **_DECAY}, ("maximize", "amsgrad"), _MOMENTS, counts_steps=True),
    "Adamax": Kind(
        "adamax", {**_BETAS, **_EPSILON, **_DECAY}, ("maximize",), ("exp_avg", "exp_inf"), counts_steps=True
    ),
    "NAdam": Kind(
        "nadam",
        {**_BETAS, "momentum_decay": ("momentum_decay", float), **_EPSILON, **_DECAY},
        ("maximize", "decoupled_weight_decay"),
        _MOMENTS,
        counts_steps=True,
        by_steps=("mu_product",),
    ),
    "RMSprop": Kind(
        "rmsprop",
        {"alpha": ("alpha", float), **_EPSILON, **_MOMENTUM, **_DECAY},
        ("maximize", "centered"),
        ("momentum_buffer", "square_avg"),
        still=True,
    ),
    "Adafactor": Kind(
        "adafactor",
        {"decay_power": ("beta2_decay", _negative), "epsilon": ("eps", _second), "threshold": ("d", float), **_DECAY},
        ("maximize",),
        (),
        counts_steps=True,
        still=True,
        more=_check_eps,
    ),
    # The initial value is in the state, which each Adagrad has from the start.
    "Adagrad": Kind("adagrad", {**_EPSILON, **_DECAY}, ("maximize", "lr_decay"), ("sum",), still=True, forgets=False),
    "Lion": Kind("lion", {**_BETAS, **_DECAY}, (), ("exp_avg",), of_torch=False),
}
# The keys of a parameter group, beside its rate, that join() reads.
NUMBERS = sorted({key for kind in KINDS.values() for key, _ in kind.settings.values()} | {"nesterov"})


def counts_steps(optimizer: str) -> bool:
    """Whether a step of this class depends on the number of steps before it."""
    return optimizer in KINDS and KINDS[optimizer].counts_steps


def moves_on(optimizer: Any, group: Group) -> bool:
    """Whether a step with a gradient of zero moves a weight that was trained before, beside its decay."""
    kind = KINDS.get(type(optimizer).__name__)
    return kind is None or not kind.still or bool(group.get("momentum"))


def forgets(optimizer: Any) -> bool:
    """Whether such a step changes the optimizer's state in any case."""
    kind = KINDS.get(type(optimizer).__name__)
    return kind is None or kind.forgets


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
        _refuse_wrapper(optimizer)
        if groups is None:
            raise PacelineError(
                f"optimizer= takes one optimizer of torch.optim, and not {kind_of(optimizer)}; give join() one"
                + (
                    ", with a group of parameters for each, and let each loss reach its own part alone "
                    "(loss.backward(inputs=[*part.parameters()]))"
                    if isinstance(optimizer, (list, tuple, dict))
                    else ""
                )
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
    if clip is not None and float(clip) != math.inf:  # every norm is below that, so nothing is clipped
        if not float(clip) > 0:
            raise PacelineError(f"clip = {clip} is not the largest norm of a gradient; it is more than 0")
        message["clip"] = float(clip)
    return message


def not_given(inventory: Inventory) -> str:
    """The line about an optimizer of this model in a program that gives join() none; empty if there is none.

    It is no error, as the program may step by the job file's and use its own to set gradients to zero.
    """
    name = _class_over(inventory)
    if name and gc.collect():  # some were garbage
        name = _class_over(inventory)
    return name and (
        f"the program has an optimizer of this model, {name}, and did not give it to join(): the servers step as "
        "[optimizer] of the job says, by default with SGD and lr = 0.05. To train with it, write optimizer= in join()"
    )


def _class_over(inventory: Inventory) -> str:
    """The class of an optimizer that join() takes, and that has a parameter of the model."""
    trained = {id(entry.tensor) for entry in inventory.entries if entry.kind == PARAMETER}
    for one in gc.get_objects():
        if issubclass(type(one), torch.optim.Optimizer) and type(one).__name__ in KINDS:
            groups: list[Group] = getattr(one, "param_groups", [])
            if any(id(parameter) in trained for group in groups for parameter in group["params"]):
                return type(one).__name__
    return ""


def _refuse_wrapper(optimizer: Any) -> None:
    """Raises an error for an object that has one of KINDS within, as those of Accelerate and Fabric do."""
    inner = getattr(optimizer, "optimizer", None)
    if type(inner).__name__ in KINDS:
        raise PacelineError(
            f"optimizer= is of the class {type(optimizer).__name__}, with {type(inner).__name__} within, and the "
            f"servers step; give join() the {type(inner).__name__} itself, and leave out what wraps it"
        )


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
    return _finite("lr", float(group["initial_lr"] if scheduled and "initial_lr" in group else group["lr"]))


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise PacelineError(
            f"the servers cannot step with an optimizer whose {name} is {value}; write a finite number"
        )
    return value


def _numbers_of(optimizer: Any) -> Callable[[Group], Message]:
    own = type(optimizer)
    name = own.__name__
    kind = KINDS.get(name)
    if kind is None or kind.of_torch != own.__module__.startswith("torch.optim"):
        *torchs, last = [name for name, kind in KINDS.items() if kind.of_torch]
        others = [f" or a {name}" for name, kind in KINDS.items() if not kind.of_torch]
        raise PacelineError(
            f"the servers cannot step with {own.__module__}.{name}; give join() {', '.join(torchs)} or {last} of "
            f"torch.optim{''.join(others)}, or leave optimizer= out and write [optimizer] in the job file"
        )
    without = kind.without
    if not kind.of_torch:
        known = [key for key, _ in kind.settings.values()]
        options = getattr(optimizer, "defaults", {})
        without = tuple(option for option in options if option not in (*known, *_NAMING, *_MANNER))

    def numbers(group: Group) -> Message:
        _refuse(group, name, *without)
        settings = kind.settings.items()
        read = {setting: _finite(key, value(group.get(key, 0))) for setting, (key, value) in settings}
        return {"name": kind.name, **read, **kind.more(group)}

    return numbers


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
                    "make the optimizer of the parameters of the model that join() gets, or, if they are a "
                    "criterion's, give join() an nn.ModuleDict of both"
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
