"""A parameter that is frozen after join(): the servers do as plain PyTorch does, or the program ends with a line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.freezing import Freezing
from paceline.inventory import take_inventory


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def plain_steps(net: nn.Sequential, optimizer: Any, frozen: list[bool], zeros: bool) -> None:
    """A step for each of `frozen`, which says whether net[0].weight is. zeros: its gradient is 0 then, and not None."""
    for step, off in enumerate(frozen):
        net[0].weight.requires_grad_(not off)
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(8, 2, generator=torch.Generator().manual_seed(step))
        (net(x) - x[:, :1]).square().mean().backward()
        if off and zeros:
            net[0].weight.grad = torch.zeros_like(net[0].weight)
        optimizer.step()


def servers_differ(make: Any, frozen: list[bool]) -> bool:
    ends = []
    for zeros in (False, True):
        net = model()
        plain_steps(net, make(net.parameters()), frozen, zeros)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in net.parameters()]))
    return not torch.allclose(ends[0], ends[1], atol=1e-7)


def first_line(net: Any, freezing: Freezing, frozen: list[bool]) -> str:
    """Whether the first weight is frozen at each step, and what the job says then."""
    for off in frozen:
        net[0].weight.requires_grad_(not off)
        try:
            freezing.check()
        except PacelineError as error:
            return str(error)
    return ""


def refusal(make: Any, frozen: list[bool]) -> str:
    net = model()
    freezing = Freezing(take_inventory(net), make(net.parameters()))
    return first_line(net, freezing, frozen)


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.99), "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                average = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(group["lr"] * average.lerp(parameter.grad, 1 - group["betas"][0]).sign())
                average.lerp_(parameter.grad, 1 - group["betas"][1])


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1),
    "sgd with momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "sgd with decay": lambda parameters: torch.optim.SGD(parameters, 0.1, weight_decay=0.1),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.1),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 0.1),
    "adamax": lambda parameters: torch.optim.Adamax(parameters, 0.1),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, 0.1),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, 0.01),
    "rmsprop with momentum": lambda parameters: torch.optim.RMSprop(parameters, 0.01, momentum=0.5),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.1),
    "adagrad with decay": lambda parameters: torch.optim.Adagrad(parameters, 0.1, weight_decay=0.1),
    "lion": lambda parameters: Lion(parameters, 0.01),
    "lion with decay": lambda parameters: Lion(parameters, 0.01, weight_decay=0.1),
}
if hasattr(torch.optim, "Adafactor"):  # since PyTorch 2.5
    OPTIMIZERS["adafactor"] = lambda parameters: torch.optim.Adafactor(parameters, 0.1)
    OPTIMIZERS["adafactor with decay"] = lambda parameters: torch.optim.Adafactor(parameters, 0.1, weight_decay=0.1)


@pytest.mark.parametrize(
    "frozen",
    [[False, False], [False, True, True], [True, True, True], [True, True, False, False], [False, True, False]],
    ids=["never", "in the middle", "from the start", "at the start alone", "for a step"],
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_line_comes_if_and_only_if_zeros_are_not_the_same_as_no_gradient(name: str, frozen: list[bool]) -> None:
    make = OPTIMIZERS[name]
    assert bool(refusal(make, frozen)) == servers_differ(make, frozen)


def test_the_line_names_the_parameter_and_the_way_out() -> None:
    assert refusal(OPTIMIZERS["adamw"], [False, True]) == (
        "0.weight was frozen after join(), and AdamW at the servers would go on with its moments and weight decay, "
        "which plain PyTorch does not; let this job end before that step, and begin a second one with its exported "
        "weights (--set model.weights=FILE) and 0.weight frozen before join(), or give join() optimizer=SGD without "
        "momentum and weight_decay"
    )
    assert refusal(OPTIMIZERS["adam"], [True, True, False]) == (
        "0.weight was frozen before the first step and wants a gradient since step 3, and Adam at the servers counts "
        "one number of steps for all parameters; let this job end before that step, and begin a second one with its "
        "exported weights (--set model.weights=FILE) and 0.weight unfrozen before join(), or give join() optimizer=SGD"
    )

    assert refusal(OPTIMIZERS["rmsprop"], [False, True, True, False]) == (
        "0.weight was frozen after join() and wants a gradient again since step 4, and RMSprop at the servers has gone "
        "on with its moments meanwhile, which plain PyTorch does not; let this job end before that step, and begin a "
        "second one with its exported weights (--set model.weights=FILE) and 0.weight unfrozen before join(), or give "
        "join() optimizer=SGD without momentum"
    )


def test_the_optimizer_of_a_job_file_has_a_momentum() -> None:
    net = model()
    freezing = Freezing(take_inventory(net), None)
    freezing.check()
    net[0].weight.requires_grad_(False)
    with pytest.raises(
        PacelineError, match="the job file's optimizer at the servers would go on with its moments, which"
    ):
        freezing.check()


def test_a_parameter_may_be_frozen_while_others_get_their_gradients() -> None:
    net = model()
    freezing = Freezing(take_inventory(net), torch.optim.Adam(net.parameters()))
    for _ in range(2):
        net.zero_grad()
        net[0].requires_grad_(True)
        net(torch.ones(1, 2)).sum().backward()
        net[0].requires_grad_(False)
        net(torch.ones(1, 2)).sum().backward()
        freezing.check()
    net.zero_grad()
    with pytest.raises(PacelineError, match="0.weight was frozen after join"):
        freezing.check()


def test_a_parameter_that_is_frozen_behind_its_backward_pass_misses_no_step() -> None:
    net = model()
    freezing = Freezing(take_inventory(net), OPTIMIZERS["rmsprop"](net.parameters()))
    for step in range(4):
        net.zero_grad()
        net[0].requires_grad_(True)
        net(torch.ones(1, 2)).sum().backward()
        net[0].requires_grad_(step % 2 == 0)
        freezing.check()


def test_gradients_of_frozen_parameters_are_looked_at_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU has to be waited for: at the first step for each frozen parameter, later for those that Adam moves."""
    net = model()
    freezing = Freezing(take_inventory(net), OPTIMIZERS["adam"](net.parameters()))
    waits: list[int] = []
    plain = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: waits.append(self.numel()) or plain(self))
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda self: pytest.fail("waits for one parameter alone"))
    for _ in range(2):
        net.zero_grad()
        net.requires_grad_(True)
        net(torch.ones(1, 2)).sum().backward()
        net.requires_grad_(False)
        freezing.check()
    net.requires_grad_(True)
    freezing.check()
    assert waits == [4, 4]


def test_a_parameter_that_no_group_has_may_be_frozen() -> None:
    net = model()
    freezing = Freezing(take_inventory(net), torch.optim.Adam(net[1].parameters()))
    freezing.check()
    net[0].requires_grad_(False)
    freezing.check()


def test_a_state_from_before_join_goes_on_too() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    plain_steps(net, optimizer, [False], False)
    freezing = Freezing(take_inventory(net), optimizer)
    net.zero_grad()
    net[0].weight.requires_grad_(False)
    with pytest.raises(PacelineError, match="0.weight was frozen after join"):
        freezing.check()


def in_epoch(epoch: int, name: str, trained: bool, frozen: list[bool]) -> str:
    """The line for a process that begins in this epoch, with weights of the job or those of its own."""
    net = model()
    freezing = Freezing(take_inventory(net), OPTIMIZERS[name](net.parameters()), lambda: epoch)
    if trained:
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.01
    return first_line(net, freezing, frozen)


def test_a_process_that_begins_later_knows_what_was_trained() -> None:
    assert in_epoch(5, "adam", True, [True]).startswith("0.weight was frozen after join(), and Adam at the servers")
    assert "wants a gradient again since step 2" in in_epoch(5, "rmsprop", True, [True, False])
    for name in ("sgd", "adagrad", "rmsprop"):
        assert in_epoch(5, name, True, [True, True]) == ""
    for name in OPTIMIZERS:
        assert in_epoch(5, name, True, [False, False]) == ""
        if "decay" not in name and name != "adamw":
            assert in_epoch(5, name, False, [True, True]) == ""  # frozen since the job began
            assert in_epoch(0, name, True, [True, True]) == ""  # the first weights may be another worker's
