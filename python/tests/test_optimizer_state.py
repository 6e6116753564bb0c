"""The servers take the state of an optimizer that join() gets, or a line says why not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.inventory import take_inventory
from paceline.optimizer_state import OptimizerState, read_state
from paceline.optimizers import read_optimizer


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def stepped(net: nn.Sequential, optimizer: Any, steps: int = 3) -> Any:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(4, 2)).square().mean().backward()
        optimizer.step()
    return optimizer


def taken(net: nn.Sequential, optimizer: Any) -> OptimizerState:
    state = read_state(optimizer, take_inventory(net))
    assert state is not None
    return state


def test_a_new_optimizer_has_none() -> None:
    net = model()
    assert read_state(torch.optim.Adam(net.parameters()), take_inventory(net)) is None
    assert read_state(stepped(net, torch.optim.SGD(net.parameters(), 0.1)), take_inventory(net)) is None
    assert read_state(torch.optim.Adagrad(net.parameters()), take_inventory(net)) is None
    frozen = model()
    optimizer = stepped(frozen, torch.optim.Adam(frozen[0].parameters()))
    frozen[0].requires_grad_(False)
    assert read_state(optimizer, take_inventory(frozen)) is None


def test_the_initial_value_of_an_adagrad_is_a_state() -> None:
    net = model()
    state = taken(net, torch.optim.Adagrad(net.parameters(), initial_accumulator_value=0.5))
    assert not state.not_taken
    assert {key: float(value.min()) for key, value in state.streams[0].items()} == {
        id(p): 0.5 for p in net.parameters()
    }


@pytest.mark.parametrize(
    "make, parts",
    [
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), ("momentum_buffer",)),
        (lambda p: torch.optim.Adam(p), ("exp_avg", "exp_avg_sq")),
        (lambda p: torch.optim.AdamW(p), ("exp_avg", "exp_avg_sq")),
        (lambda p: torch.optim.Adamax(p), ("exp_avg", "exp_inf")),
        (lambda p: torch.optim.NAdam(p), ("exp_avg", "exp_avg_sq")),
        (lambda p: torch.optim.RMSprop(p, 0.1, momentum=0.9), ("momentum_buffer", "square_avg")),
        (lambda p: torch.optim.RMSprop(p, 0.1), (None, "square_avg")),
        (lambda p: torch.optim.Adagrad(p, 0.1), ("sum",)),
    ],
)
def test_the_parts_of_a_state_come_in_the_servers_order(make: Any, parts: tuple[str | None, ...]) -> None:
    net = model()
    optimizer = stepped(net, make(net.parameters()))
    state = taken(net, optimizer)
    assert not state.not_taken
    assert state.steps == (1 if isinstance(optimizer, torch.optim.SGD) else 3)
    for name, values in zip(parts, state.streams, strict=True):
        expected = {id(p): optimizer.state[p][name] for p in net.parameters()} if name else {}
        assert {key: value.tolist() for key, value in values.items()} == {
            key: value.tolist() for key, value in expected.items()
        }


def test_a_parameter_without_a_state_is_left_out_and_counts_its_own_steps() -> None:
    net = model()
    optimizer = stepped(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
    del optimizer.state[net[0].bias]
    assert set(taken(net, optimizer).streams[0]) == {id(net[0].weight), id(net[1].weight), id(net[1].bias)}
    optimizer = stepped(net, torch.optim.Adam(net.parameters()))
    del optimizer.state[net[0].bias]
    optimizer.state[net[1].bias]["step"] = torch.tensor(1.0)
    state = taken(net, optimizer)
    assert set(state.streams[1]) == {id(net[0].weight), id(net[1].weight), id(net[1].bias)}
    assert state.steps == 3 and state.behind == {id(net[0].bias): 3, id(net[1].bias): 2}
    inventory = take_inventory(net)
    message = read_optimizer(optimizer, inventory, scheduled=False, clip=None, behind=state.behind)
    assert message["group"] == [
        {"tensors": ["0.bias"], "steps_behind": 3},
        {"tensors": ["1.bias"], "steps_behind": 2},
    ]


def test_a_part_that_the_servers_do_not_keep_is_named() -> None:
    net = model()
    optimizer = stepped(net, torch.optim.Adam(net.parameters(), amsgrad=True))
    state = taken(net, optimizer)
    assert state.steps == 0
    assert state.not_taken == (
        "the optimizer given to join() has a state whose parts max_exp_avg_sq have no place at the servers: only the "
        "weights are taken. To go on with them, go on with a run of Paceline (--resume), whose checkpoints have them"
    )


def test_a_state_of_another_shape_is_refused() -> None:
    net = model()
    optimizer = stepped(net, torch.optim.Adam(net.parameters()))
    optimizer.state[net[1].weight]["exp_avg_sq"] = torch.ones(3, 1)
    with pytest.raises(
        PacelineError, match=r"exp_avg_sq of 1.weight has the shape \[3, 1\], and the parameter \[1, 3\];"
    ):
        taken(net, optimizer)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_state_that_is_not_finite_is_refused(value: float) -> None:
    net = model()
    optimizer = stepped(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
    optimizer.state[net[1].bias]["momentum_buffer"][0] = value
    with pytest.raises(
        PacelineError, match="momentum_buffer of 1.bias is not finite; load the optimizer's state of an"
    ):
        taken(net, optimizer)
