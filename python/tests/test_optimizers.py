"""Optimizers of torch.optim as the servers' own."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.inventory import take_inventory
from paceline.optimizer_guard import OptimizerGuard
from paceline.optimizers import read_optimizer

OLD = not hasattr(torch, "compile")


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def read(net: nn.Module, optimizer: Any, clip: float | None = None, scheduled: bool = False) -> dict[str, Any]:
    return read_optimizer(optimizer, take_inventory(net), scheduled, clip)


@pytest.mark.parametrize(
    "make, expected",
    [
        (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True),
            {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": True},
        ),
        (
            lambda p: torch.optim.SGD(p, lr=0.1),
            {"name": "sgd", "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0},
        ),
        (
            lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6),
            {"name": "adam", "lr": 0.01, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, "weight_decay": 0.0},
        ),
        (
            lambda p: torch.optim.AdamW(p),
            {"name": "adamw", "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
        ),
        (
            lambda p: torch.optim.Adamax(p, weight_decay=0.1),
            {"name": "adamax", "lr": 2e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1},
        ),
        (
            lambda p: torch.optim.NAdam(p, momentum_decay=0.01, weight_decay=0.1),
            dict(name="nadam", lr=2e-3, beta1=0.9, beta2=0.999, momentum_decay=0.01, epsilon=1e-8, weight_decay=0.1),
        ),
        (
            lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.95, momentum=0.5),
            {"name": "rmsprop", "lr": 0.02, "alpha": 0.95, "epsilon": 1e-8, "momentum": 0.5, "weight_decay": 0.0},
        ),
        (
            lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.1),
            {"name": "adagrad", "lr": 0.01, "epsilon": 1e-10, "weight_decay": 0.0},
        ),
    ],
)
def test_kinds(make: Any, expected: dict[str, Any]) -> None:
    net = model()
    assert read(net, make(net.parameters())) == expected


def test_adam_with_decoupled_decay_is_adamw() -> None:
    if OLD:
        pytest.skip("this PyTorch's Adam has no decoupled_weight_decay")
    net = model()
    found = read(net, torch.optim.Adam(net.parameters(), weight_decay=0.1, decoupled_weight_decay=True))
    assert found["name"] == "adamw" and found["weight_decay"] == 0.1


@pytest.mark.skipif(not hasattr(torch.optim, "Adafactor"), reason="this PyTorch has no Adafactor")
def test_adafactor() -> None:
    net = model()
    found = read(net, torch.optim.Adafactor(net.parameters(), lr=0.02, beta2_decay=-0.7, d=2.0))
    numbers = {"decay_power": 0.7, "epsilon": 1e-3, "threshold": 2.0, "weight_decay": 0.0}
    assert found == {"name": "adafactor", "lr": 0.02, **numbers}
    with pytest.raises(PacelineError, match=r"write eps=\(None, 0.001\)"):
        read(net, torch.optim.Adafactor(net.parameters(), eps=(1e-8, 1e-3)))


def test_lion_by_its_name() -> None:
    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.1})

    net = model()
    found = read(net, Lion(net.parameters()))
    assert found == {"name": "lion", "lr": 1e-4, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}


@pytest.mark.parametrize(
    "option", ["maximize", "caution", "decoupled_weight_decay", "cautious_factor", "eps", "weight_decouple"]
)
def test_an_option_of_a_lion_that_the_servers_do_not_know(option: str) -> None:
    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters: Any, **options: Any) -> None:
            neutral = {"maximize": False, "caution": False, "cautious_factor": 1.0, "foreach": True, "eps": None}
            numbers = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.1, "weight_decouple": True}
            super().__init__(parameters, {**numbers, **neutral, "use_triton": True, **options})

    net = model()
    assert read(net, Lion([{"params": net.parameters(), "layer": 3}]))["name"] == "lion"
    with pytest.raises(PacelineError, match=rf"Lion\({option}=0.5\); leave {option} out"):
        read(net, Lion(net.parameters(), **{option: 0.5}))


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1), "SGD(dampening=0.1)"),
        (lambda p: torch.optim.SGD(p, lr=0.1, maximize=True), "SGD(maximize=True)"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "Adam(amsgrad=True)"),
        (lambda p: torch.optim.Adam(p, maximize=True), "Adam(maximize=True)"),
        (lambda p: torch.optim.AdamW(p, amsgrad=True), "AdamW(amsgrad=True)"),
        (lambda p: torch.optim.Adamax(p, maximize=True), "Adamax(maximize=True)"),
        (lambda p: torch.optim.NAdam([{"params": p, "maximize": True}]), "NAdam(maximize=True)"),
        (lambda p: torch.optim.NAdam([{"params": p, "decoupled_weight_decay": 1}]), "NAdam(decoupled_weight_decay"),
        (lambda p: torch.optim.RMSprop(p, centered=True), "RMSprop(centered=True)"),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "Adagrad(lr_decay=0.1)"),
        (lambda p: torch.optim.Rprop(p), "cannot step with torch.optim.rprop.Rprop"),
        (lambda p: torch.optim.SGD(p, lr=0.0), "learning rate is 0"),
        (lambda p: type("Noam", (), {"optimizer": torch.optim.SGD(p)})(), "the class Noam, with SGD within, and"),
    ],
)
def test_refused(make: Any, says: str) -> None:
    net = model()
    with pytest.raises(PacelineError) as error:
        read(net, make(net.parameters()))
    assert says in str(error.value)


def test_groups_say_what_differs() -> None:
    net = model()
    groups = [
        {"params": [net[0].weight]},
        {"params": [net[0].bias], "weight_decay": 0.0},
        {"params": [net[1].weight], "lr": 0.02},
        {"params": [net[1].bias]},
    ]
    found = read(net, torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1))
    assert found["lr"] == 0.01 and found["weight_decay"] == 0.1
    assert found["group"] == [
        {"tensors": ["0.bias"], "weight_decay": 0.0},
        {"tensors": ["1.weight"], "rate": 2.0},
    ]


def test_a_first_group_without_a_rate() -> None:
    net = model()
    groups = [{"params": net[0].parameters(), "lr": 0.0}, {"params": net[1].parameters()}]
    found = read(net, torch.optim.SGD(groups, lr=0.5))
    assert found["lr"] == 0.5 and found["group"] == [{"tensors": ["0.weight", "0.bias"], "rate": 0.0}]


def test_what_the_optimizer_has_not_stays() -> None:
    net = model()
    found = read(net, torch.optim.SGD(net[0].parameters(), lr=0.5, weight_decay=0.1))
    assert found["group"] == [{"tensors": ["1.weight", "1.bias"], "rate": 0.0, "weight_decay": 0.0}]


def test_frozen_parameters_in_it_are_passed_over() -> None:
    net = model()
    net[0].requires_grad_(False)
    assert "group" not in read(net, torch.optim.SGD(net.parameters(), lr=0.5))


def test_anothers_parameters() -> None:
    with pytest.raises(PacelineError, match="not the model.s; .* nn.ModuleDict of both"):
        read(model(), torch.optim.SGD(model().parameters(), lr=0.5))


def test_groups_with_numbers_of_their_own() -> None:
    net = model()
    groups = [{"params": net[0].parameters()}, {"params": net[1].parameters(), "momentum": 0.5}]
    found = read(net, torch.optim.SGD(groups, lr=0.5, momentum=0.9))
    assert found["group"] == [{"tensors": ["1.weight", "1.bias"], "momentum": 0.5}]


def test_groups_of_two_kinds() -> None:
    net = model()
    groups = [{"params": net[0].parameters()}, {"params": net[1].parameters(), "nesterov": True}]
    with pytest.raises(PacelineError, match="group 2 of the optimizer has nesterov = True"):
        read(net, torch.optim.SGD(groups, lr=0.5, momentum=0.9))


def test_clip() -> None:
    net = model()
    assert read(net, torch.optim.SGD(net.parameters(), lr=0.5), clip=1)["clip"] == 1.0
    assert read(net, None, clip=2) == {"clip": 2.0}
    assert read(net, None) == {}


def test_with_a_scheduler_its_first_rate_is_not_the_optimizers() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert read(net, optimizer, scheduled=True)["lr"] == 0.5


def test_a_rate_of_a_scheduler_that_is_not_given_is_refused() -> None:
    net = model()
    scheduled = torch.optim.Adam(net.parameters())
    torch.optim.lr_scheduler.ExponentialLR(scheduled, 0.5)
    with pytest.raises(PacelineError, match="the optimizer has a scheduler, which join.. was not given"):
        read(net, scheduled)
    loaded = torch.optim.Adam(net.parameters())
    loaded.load_state_dict(scheduled.state_dict())
    with pytest.raises(
        PacelineError, match="an initial_lr, from .* a loaded state .*group.pop.'initial_lr'. in each"
    ):
        read(net, loaded)
    for group in loaded.param_groups:
        group.pop("initial_lr")
    assert read(net, loaded)["lr"] == 0.001


def test_the_guard() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    guard = OptimizerGuard(optimizer, None)
    with pytest.raises(PacelineError, match="call job.step"):
        optimizer.step()
    net(torch.ones(1, 2)).sum().backward()
    kept = net[0].weight.grad
    optimizer.zero_grad()
    assert net[0].weight.grad is kept and not kept.any()
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # may be made after join()
    copy.deepcopy(optimizer)
    guard.release()
    optimizer.step()
    optimizer.zero_grad()
    if not OLD:
        assert net[0].weight.grad is None


@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_rate_that_the_program_sets_is_not_ignored(as_tensor: bool) -> None:
    rate: Any = torch.tensor(0.5) if as_tensor else 0.5
    if as_tensor and OLD:
        pytest.skip("this PyTorch has no rates that are tensors")
    optimizer = torch.optim.Adam(model().parameters(), lr=rate)
    guard = OptimizerGuard(optimizer, None)
    guard.check()
    if as_tensor:
        optimizer.param_groups[0]["lr"].fill_(0.25)
    else:
        optimizer.param_groups[0]["lr"] = 0.25
    with pytest.raises(PacelineError, match="lr was 0.5 at join.. and is 0.25 now.*schedule="):
        guard.check()


def test_so_is_what_a_scheduler_does_that_is_made_later() -> None:
    optimizer = torch.optim.SGD(model().parameters(), lr=0.5, momentum=0.9)
    guard = OptimizerGuard(optimizer, None)
    torch.optim.lr_scheduler.ConstantLR(optimizer, 0.1)
    with pytest.raises(PacelineError, match="lr was 0.5"):
        guard.check()


def test_a_scheduler_that_the_servers_know_may_be_stepped() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(1))]}, {"params": [nn.Parameter(torch.zeros(1))], "lr": 0.2}]
    optimizer = torch.optim.SGD(groups, lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = OptimizerGuard(optimizer, None, schedule)
    for _ in range(3):
        guard.check()
        schedule.step()
    guard.check()


class OwnSchedule:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        self.optimizer.param_groups[0]["lr"] = 0.25


class SaysNoRate(torch.optim.lr_scheduler.LambdaLR):
    """A scheduler like some on PyPI: its get_last_lr() says nothing."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.steps = 0
        super().__init__(optimizer, lambda step: 1.0)

    def step(self, epoch: int | None = None) -> None:
        self.steps += 1
        self.optimizer.param_groups[0]["lr"] = 0.5 / self.steps


class SaysAnother(torch.optim.lr_scheduler.LambdaLR):
    """get_last_lr() says what was before the warm-up."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer, lambda step: 1 / (1 + step))

    def step(self, epoch: int | None = None) -> None:
        super().step()
        self.optimizer.param_groups[0]["lr"] *= 0.5


def in_a_row(optimizer: torch.optim.Optimizer) -> Any:
    schedulers = torch.optim.lr_scheduler
    return schedulers.SequentialLR(optimizer, [schedulers.ConstantLR(optimizer), SaysAnother(optimizer)], [1])


@pytest.mark.parametrize("make", [OwnSchedule, SaysNoRate, SaysAnother, in_a_row])
def test_a_scheduler_of_somebody_elses_may_set_any_rate(make: Any) -> None:
    optimizer = torch.optim.SGD(model().parameters(), lr=0.5)
    schedule = make(optimizer)
    guard = OptimizerGuard(optimizer, None, schedule)
    for _ in range(3):
        guard.check()
        schedule.step()
    guard.check()
    optimizer.param_groups[0]["momentum"] = 0.3
    with pytest.raises(PacelineError, match="momentum was 0 at join"):
        guard.check()


def scheduled_guard() -> tuple[Any, OptimizerGuard]:
    optimizer = torch.optim.AdamW(model().parameters(), lr=0.5, weight_decay=0.1)
    return optimizer, OptimizerGuard(optimizer, None, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))


@pytest.mark.parametrize(
    "name, value, says",
    [
        ("lr", 0.3, "lr was 0.5 at join.. and is 0.3 now.*leave the rate to it"),
        ("weight_decay", 0.2, "weight_decay was 0.1 at join.. and is 0.2 now.*set it before join"),
        ("betas", (0.5, 0.999), "betas was .0.9, 0.999. at join"),
        ("eps", 1e-3, "eps was 1e-08 at join"),
    ],
)
def test_beside_a_scheduler_a_number_that_the_program_sets_is_not_ignored(name: str, value: Any, says: str) -> None:
    optimizer, guard = scheduled_guard()
    optimizer.param_groups[0][name] = value
    with pytest.raises(PacelineError, match=says):
        guard.check()


def test_a_pair_is_the_same_as_a_list_and_is_seen_where_it_changes_in_its_place() -> None:
    optimizer, guard = scheduled_guard()
    optimizer.param_groups[0]["betas"] = [0.9, 0.999]  # a list, which a JSON file has for a pair
    guard.check()
    guard = OptimizerGuard(optimizer, None)
    optimizer.param_groups[0]["betas"][0] = 0.5
    with pytest.raises(PacelineError, match="betas was .0.9, 0.999. at join.. and is .0.5, 0.999. now"):
        guard.check()


def test_what_the_optimizer_gets_after_join_is_not_trained_in_silence() -> None:
    net = model()
    optimizer = torch.optim.SGD(net[0].parameters(), lr=0.5)
    guard = OptimizerGuard(optimizer, None)
    optimizer.add_param_group({"params": list(net[1].parameters())})
    with pytest.raises(PacelineError, match="1 group of 2 parameters at join.. and has 2 groups of 2 and 2 param"):
        guard.check()
    del optimizer.param_groups[1]
    guard.check()
    optimizer.param_groups[0]["params"].append(net[1].bias)
    with pytest.raises(PacelineError, match="give the optimizer all of them before join"):
        guard.check()


def test_a_parameter_that_leaves_the_optimizer_after_join_is_not_trained_on_in_silence() -> None:
    optimizer = torch.optim.SGD(model().parameters(), lr=0.5)
    guard = OptimizerGuard(optimizer, None)
    optimizer.param_groups[0]["params"].pop()
    with pytest.raises(
        PacelineError, match="4 parameters at join.. and has .* 3 param.*; let this job end before, and"
    ):
        guard.check()


@pytest.mark.skipif(OLD, reason="this PyTorch's optimizers have no hooks")
def test_hooks_of_a_step_are_refused_before_join_and_after_it() -> None:
    optimizer = torch.optim.Adam(model().parameters())
    guard = OptimizerGuard(optimizer, None)
    guard.check()
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(PacelineError, match="step_pre_hook., which nobody calls.*in the loop, before job.step"):
        guard.check()
    optimizer = torch.optim.Adam(model().parameters())
    optimizer.register_step_post_hook(lambda *_: None)
    with pytest.raises(PacelineError, match="step_post_hook., which nobody calls.*in the loop, behind job.step"):
        OptimizerGuard(optimizer, None)


def test_a_state_that_is_loaded_after_join_is_refused() -> None:
    optimizer = torch.optim.Adam(model().parameters())
    state = optimizer.state_dict()
    guard = OptimizerGuard(optimizer, None)
    with pytest.raises(PacelineError, match="load_state_dict.. was called after join.*; load it before join"):
        optimizer.load_state_dict(state)
    guard.release()
    optimizer.load_state_dict(state)


def test_a_state_that_is_saved_says_once_that_it_has_no_moments(capsys: pytest.CaptureFixture[str]) -> None:
    optimizer = torch.optim.Adam(model().parameters())
    guard = OptimizerGuard(optimizer, None)
    guard.release()
    for _ in range(2):
        assert set(optimizer.state_dict()) == {"state", "param_groups"}
    said = capsys.readouterr().err
    assert said.count("optimizer.state_dict() does not have the moments of this job") == 1
    torch.save(optimizer, io.BytesIO())
    optimizer = torch.optim.SGD(model().parameters(), lr=0.5)
    OptimizerGuard(optimizer, None)
    optimizer.state_dict()
    assert not capsys.readouterr().err


def scaler() -> Any:
    try:
        return torch.amp.GradScaler("cpu", init_scale=1024.0)
    except (AttributeError, RuntimeError):
        pytest.skip("this PyTorch has no GradScaler for the CPU")


@pytest.mark.parametrize("unscaled", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler(unscaled: bool, fused: bool) -> None:
    net = model()
    grad_scaler = scaler()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, fused=fused)
    before = [parameter.clone() for parameter in net.parameters()]
    guard = OptimizerGuard(optimizer, grad_scaler)
    for overflow in (False, True, False):
        optimizer.zero_grad()
        scale = grad_scaler.get_scale()
        grad_scaler.scale(net(torch.ones(1, 2)).sum()).backward()
        assert net[1].bias.grad.item() == scale
        if overflow:
            net[0].weight.grad[0, 0] = float("inf")
        if unscaled:
            grad_scaler.unscale_(optimizer)
        assert guard.overflowed() is overflow
        assert net[1].bias.grad.item() == 1.0
        assert grad_scaler.get_scale() == (scale / 2 if overflow else scale)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
