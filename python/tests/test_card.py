"""Weights and gradients in a card's memory, which a stand-in for the CUDA driver gives out. test_step.py has the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from card import ON_CARD, driver, needs_card
from fake_member import Ended, Member, Memory
from gpu import ON_CPU, STAND_IN
from scripts import HEAD, LOOP, PLAIN

pytestmark = needs_card

ON_CPU_WITH_CARD = {**ON_CARD, "PACELINE_DEVICE": "cpu"}


def seen(member: Member, what: str) -> list[str]:
    """The lines of a program's output that begin so, without that."""
    return [line[len(what) + 1 :] for line in member.log.splitlines() if line.startswith(what + " ")]


def error_of(member: Member) -> str:
    """The one line of a program that ends with an error."""
    text: str = member.receive("error")["text"]
    assert member.wait() == 1 and "\n" not in text
    return text


def plain_gradients(state: dict[str, torch.Tensor], samples: list[int]) -> dict[str, torch.Tensor]:
    """The gradients of the program PLAIN at these weights."""
    scope: dict[str, Any] = {}
    exec(HEAD, scope)
    model, points = scope["Net"](), scope["Points"]()
    model.load_state_dict({**model.state_dict(), **state})
    scope["loss_of"](model, points.x[samples], points.y[samples]).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def check_gradients(member: Member, gradients: Any, state: dict[str, torch.Tensor], samples: list[int]) -> None:
    for name, expected in plain_gradients(state, samples).items():
        assert torch.equal(member.tensor(gradients, name), expected), name


def test_weights_stay_at_their_addresses_and_gradients_lie_in_the_cards_memory(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
def file_at(at):
    for line in open("/proc/self/maps"):
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= at < end:
            return line.split()[1], line.split()[4]
for x, y in job:
    first = model.first.weight
    print("weights", first.data_ptr(), "in", *file_at(first.data_ptr()))
    own = first.grad.data_ptr()
    print("gradients", *file_at(own))
    loss = loss_of(model, x, y)
    loss.backward()
    print("stayed", first.grad.data_ptr() == own)
    job.step(loss)
    print("given away", first.grad is None)
    print("maps", *{line.split()[1] for line in open("/proc/self/maps") if "paceline-card" in line})
"""
    with Member(tmp_path, HEAD + body, environment=ON_CARD) as member:
        member.begin()
        other = member.map(2, write=False)
        other.floats.copy_(member.memories[0].floats)
        for weights in (0, 2, 0):
            member.step(range(4), weights=[[0, weights, 0]])
        file = os.fstat(member.memories[1].fd).st_ino
        assert member.end() == 0, member.log
        (address,) = set(seen(member, "weights"))
        assert " in rw-p " in address
        assert set(seen(member, "gradients")) == {f"rw-s {file}"}
        assert set(seen(member, "stayed")) == set(seen(member, "given away")) == {"True"}
        assert {frozenset(line.split()) for line in seen(member, "maps")} == {frozenset(["r--s", "rw-s"])}


def test_a_slot_that_changes(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, environment=ON_CARD) as member:
        weights, _ = member.begin()
        member.map(2, write=True)
        for step, slot in enumerate((1, 2, 1, 2)):
            weights.floats.mul_(1.25)
            for number in (1, 2):
                member.memories[number].floats.fill_(17)
            samples = [step, step + 9, step + 18]
            assert member.step(samples, gradients=[[0, slot, 0]])["finite"]
            check_gradients(member, member.memories[slot], member.state(weights), samples)
            assert set(member.memories[3 - slot].floats.tolist()) == {17}
        assert member.end() == 0, member.log


def test_look_ahead_has_the_servers_bits(tmp_path: Path) -> None:
    body = """
class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.scale = nn.Parameter(torch.ones(5).half())
        self.register_buffer("moving", torch.full((2,), 1.0))
        self.fixed = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
    def forward(self, x):
        return self.net(x) * self.scale.float().mean()
model = Held()
job = paceline.join(model, Points())
for i, (x, y) in enumerate(job):
    torch.save({name: tensor.clone() for name, tensor in model.state_dict().items()}, f"{i}.pt")
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""
    with Member(tmp_path, HEAD + body, environment=ON_CARD) as member:
        member.begin()
        distance = member.floats * 4 + 4096
        both = member.map(2, write=False, size=distance + member.floats * 4)
        generator = torch.Generator().manual_seed(1)
        weights, direction = both.floats[: member.floats], both.floats[distance // 4 :]
        weights.copy_(member.memories[0].floats)
        moving = member.offsets[member.index("net.norm.running_mean")]
        weights[:moving].copy_(torch.randn(moving, generator=generator))
        direction.copy_(torch.randn(len(direction), generator=generator))
        places = {"weights": [[0, 2, 0]]}
        reach = 0.37109375 + 2**-23
        member.step(range(4), **places, ahead={"reach": reach, "direction": distance})
        member.step(range(4), **places)
        ahead, plain = (torch.load(tmp_path / f"{i}.pt") for i in (0, 1))
        state = member.state(both)
        for name in state:
            at = member.offsets[member.index(name)]
            along = direction[at : at + state[name].numel()].numpy().reshape(state[name].shape)
            expected = state[name].clone()
            if member.tensors[member.index(name)]["kind"] == "parameter":
                # numpy rounds each of the two operations
                expected = torch.from_numpy(state[name].numpy() - along * torch.tensor(reach).numpy())
            assert torch.equal(ahead[name], expected.to(ahead[name].dtype)), name
            assert torch.equal(plain[name], state[name].to(plain[name].dtype)), name
        assert ahead["fixed"].tolist() == [2.0, 2.0, 2.0]
        assert not torch.equal(ahead["net.first.weight"], plain["net.first.weight"])
        assert member.end() == 0, member.log


def test_look_ahead_is_refused_from_files(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.begin()
        member.order(range(4), ahead={"reach": 0.5, "direction": 4096})
        assert "look-ahead" in error_of(member)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_parameters_of_other_types(tmp_path: Path, dtype: str) -> None:
    body = f"""
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.scale = nn.Parameter(torch.tensor([1.5, 0.3, -0.7]).to(torch.{dtype}))
    def forward(self, x):
        return self.net(x) * self.scale.float()
"""
    program = body + "model = Other()\njob = paceline.join(model, Points())\n" + LOOP
    scope: dict[str, Any] = {}
    exec(HEAD + body, scope)
    with Member(tmp_path, HEAD + program, environment=ON_CARD) as member:
        weights, gradients = member.begin()
        for step in range(2):
            weights.floats.mul_(1.01)
            gradients.floats.fill_(17)
            samples = [step + i for i in range(8)]
            member.step(samples)
            model, points = scope["Other"](), scope["Points"]()
            model.load_state_dict({**model.state_dict(), **member.state(weights)})
            scope["loss_of"](model, points.x[samples], points.y[samples]).backward()
            for name, parameter in model.named_parameters():
                assert torch.equal(member.tensor(gradients, name), parameter.grad.float()), name
        assert member.end() == 0, member.log


@pytest.mark.parametrize("on", [0, 1], ids=["near", "on another card"])
def test_a_skipped_step_leaves_zeros_and_the_statistics_of_the_weights(tmp_path: Path, on: int) -> None:
    body = PLAIN.replace("job.step(loss)", "job.step(loss, skipped=True)")
    with Member(tmp_path, body, environment=ON_CARD) as member:
        weights, _ = member.begin()
        assert member.card is not None
        member.memories[2] = gradients = member.card.memory(2, member.floats * 4, on=on)
        gradients.floats.fill_(17)
        member.send(gradients.message(write=True))
        answer = member.step(range(4), gradients=[[0, 2, 0]])
        assert answer["skipped"] and answer["finite"]
        for tensor in member.tensors:
            now = member.tensor(gradients, tensor["name"])
            if tensor["kind"] == "parameter":
                assert not now.any(), tensor["name"]
            elif tensor["kind"] == "statistic":
                assert torch.equal(now, member.tensor(weights, tensor["name"])), tensor["name"]
        assert member.end() == 0, member.log


def test_memory_on_two_cards_and_in_a_file(tmp_path: Path) -> None:
    """The model is on the first card. Copies go through the host for the others, in both directions."""
    near = "print('near', [job._memories._mapped[number].near for number in (10, 11, 12)])"
    with Member(tmp_path, PLAIN.replace("    job.step", f"    {near}\n    job.step"), environment=ON_CARD) as member:
        weights, _ = member.begin()
        assert member.card is not None
        cuts = [0, member.index("first.bias"), member.index("last.weight")]
        ends = [*(member.offsets[cut] for cut in cuts[1:]), member.floats]
        size = member.floats * 4
        memories: list[list[Any]] = []
        for number in (10, 20):
            made = [member.card.memory(number, size, on=0), member.card.memory(number + 1, size, on=1)]
            made.append(Memory(number + 2, size))
            for memory in made:
                member.memories[memory.number] = memory
                member.send(memory.message(write=number == 20))
            memories.append(made)
        whole = Memory(99, size)
        member.memories[99] = whole
        runs = [[[cut, memory.number, 0] for cut, memory in zip(cuts, made)] for made in memories]
        for step in range(2):
            weights.floats.mul_(1.25)
            for memory, cut, end in zip(memories[0], cuts, ends):
                begin = member.offsets[cut]
                memory.floats[: end - begin].copy_(weights.floats[begin:end])
            for memory in memories[1]:
                memory.floats.fill_(17)
            samples = [step, 3, 4, 9]
            assert member.step(samples, weights=runs[0], gradients=runs[1])["finite"]
            for memory, cut, end in zip(memories[1], cuts, ends):
                begin = member.offsets[cut]
                whole.floats[begin:end].copy_(memory.floats[: end - begin])
            check_gradients(member, whole, member.state(weights), samples)
        assert member.end() == 0, member.log
        assert set(seen(member, "near")) == {"[True, False, False]"}


def test_initial_values_on_another_card(tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec(HEAD + "model = Net()", scope)
    with Member(tmp_path, PLAIN, environment=ON_CARD) as member:
        member.take_model()
        assert member.card is not None
        member.memories[0] = memory = member.card.memory(0, member.floats * 4, on=1)
        memory.floats.fill_(9)
        member.send(memory.message(write=True))
        member.send({"type": "initial", "to": [[0, 0, 0]]})
        member.receive("done")
        for name, value in scope["model"].named_parameters():
            assert torch.equal(member.tensor(memory, name), value), name
        member.end()


def test_an_evaluator_on_the_processor_reads_the_cards_memory(tmp_path: Path) -> None:
    body = """
model = Net()
def evaluate(model):
    print("near", job._memories._mapped[0].near)
    return model.last.weight.sum()
job = paceline.join(model, Points(), evaluate=evaluate)
for x, y in job:
    pass
"""
    with Member(tmp_path, HEAD + body, role="evaluator", environment=ON_CPU_WITH_CARD) as member:
        member.take_model()
        weights = member.map(0, write=False)
        for value in (1.0, 2.0):
            weights.floats.fill_(value)
            member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
            assert member.receive("evaluated")["metrics"]["loss"] == 24 * value
        assert member.end() == 0, member.log
        assert seen(member, "near") == ["False", "False"]


def test_a_job_goes_from_files_to_a_card_and_back(tmp_path: Path) -> None:
    by = "print('by', type(job._binding.now).__name__, len(model.last.weight._post_accumulate_grad_hooks or ()))"
    body = PLAIN.replace("    job.step(loss)", f"    {by}\n    job.step(loss)")
    with Member(tmp_path, body, environment=ON_CARD) as member:
        weights, _ = member.begin()
        for number, write in ((2, False), (3, True)):
            member.memories[number] = Memory(number, member.floats * 4)
            member.send(member.memories[number].message(write))
        for kind in (0, 2, 0, 2):
            weights.floats.mul_(1.25)
            member.memories[2].floats.copy_(weights.floats)
            samples = [kind, 1, 8, 5]
            member.step(samples, weights=[[0, kind, 0]], gradients=[[0, kind + 1, 0]])
            check_gradients(member, member.memories[kind + 1], member.state(weights), samples)
        assert member.end() == 0, member.log
        assert seen(member, "by") == ["ResidentBinding 0", "DeviceBinding 1"] * 2


@pytest.mark.parametrize("at, found", [(0, True), (3, True), (5, False), (32, True)])
def test_a_program_that_writes_to_its_weights(tmp_path: Path, at: int, found: bool) -> None:
    """The first four steps and then each 32nd look for writes that PyTorch does not count as changes."""
    body = f"""
model = Net()
job = paceline.join(model, Points())
for i, (x, y) in enumerate(job):
    loss = loss_of(model, x, y)
    loss.backward()
    if i == {at}:
        model.last.weight.data.clamp_(-1e-3, 1e-3)
    job.step(loss)
"""
    with Member(tmp_path, HEAD + body, environment=ON_CARD) as member:
        weights, _ = member.begin()
        before = weights.floats.clone()
        for _ in range(at):
            member.step(range(4))
        member.order(range(4))
        if found:
            text = error_of(member)
            assert "wrote to the weight last.weight" in text
        else:
            member.receive("stepped")
            member.end()
        assert torch.equal(weights.floats, before)


@pytest.mark.parametrize(
    "environment, card",
    [(ON_CARD, True), (ON_CPU, False), (STAND_IN, False), (ON_CPU_WITH_CARD, False)],
    ids=["on a card", "on the CPU", "on the stand-in of copies", "on the CPU beside a card"],
)
def test_the_model_says_which_card_it_is_on(tmp_path: Path, environment: dict[str, str], card: bool) -> None:
    with Member(tmp_path, PLAIN, environment=environment) as member:
        said = member.take_model().get("memory")
        assert said == ({"kind": "cuda", "device": driver().uuid(0), "cards": 2, "words": True} if card else None)
        member.end()


REFUSES = """
from paceline.device_memory import Driver
from paceline.errors import PacelineError
call = Driver.call
def refusing(driver, what, function, *arguments):
    print(function)
    if function == {function!r}:
        raise PacelineError(f"the CUDA driver cannot {{what}}: CUDA_ERROR_NOT_SUPPORTED (801)")
    call(driver, what, function, *arguments)
Driver.call = refusing
"""


@pytest.mark.parametrize("function", ["cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "none"])
def test_a_driver_that_reaches_no_page_of_the_host_offers_no_words(tmp_path: Path, function: str) -> None:
    """A page is tried, and let go again."""
    with Member(tmp_path, REFUSES.format(function=function) + PLAIN, environment=ON_CARD) as member:
        assert member.take_model()["memory"]["words"] == (function == "none")
        member.end()
        called = member.log.split()
        unregistered = called.count("cuMemHostRegister_v2") if function != "cuMemHostRegister_v2" else 0
        assert called.count("cuMemHostUnregister") == unregistered


@pytest.mark.parametrize("environment", [ON_CARD, ON_CPU], ids=["on a card", "on the CPU"])
def test_without_numpy_weights_are_not_in_the_cards_memory(tmp_path: Path, environment: dict[str, str]) -> None:
    """PyTorch has no other way to a tensor over addresses of a GPU."""
    body = """
def numpy(tensor):
    raise RuntimeError("Numpy is not available")
torch.Tensor.numpy = numpy
"""
    with Member(tmp_path, HEAD + body + PLAIN[len(HEAD) :], environment=environment) as member:
        assert "memory" not in member.take_model()
        member.end()
        assert member.log.count("install numpy") == (environment is ON_CARD)


def test_a_program_that_hides_cards_from_itself_tells_of_all(tmp_path: Path) -> None:
    """Otherwise the coordinator would take the host for one with a single card."""
    hides = """
import os
from paceline.devices import see_only
see_only("1", 2)
assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
os.environ["PACELINE_STAND_IN_ONLY"] = "1"
"""
    with Member(tmp_path, hides + PLAIN, environment=ON_CARD) as member:
        said = member.take_model()["memory"]
        assert said["device"] == driver().uuid(1) and said["cards"] == 2
        member.end()


def test_workers_of_a_host_take_its_cards_in_turn(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, environment=ON_CARD, on_host=3) as member:
        assert member.take_model()["memory"]["device"].endswith("01")
        member.end()


def test_a_driver_that_cannot_be_loaded(tmp_path: Path) -> None:
    body = 'import os\nos.environ["PACELINE_CUDA_DRIVER"] = "/no/such/driver.so"\n' + PLAIN
    with Member(tmp_path, body, environment=ON_CARD) as member:
        assert "the CUDA driver /no/such/driver.so cannot be loaded" in error_of(member)


def test_a_program_waits_for_a_server_that_is_started_again(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, environment=ON_CARD) as member:
        weights, gradients = member.begin()
        assert member.card is not None
        member.card.leave(1.0)
        other = member.map(2, write=False)
        other.floats.copy_(weights.floats)
        member.step(range(4), weights=[[0, 2, 0]])
        check_gradients(member, gradients, member.state(other), [*range(4)])
        assert member.end() == 0, member.log


def test_the_servers_end_leaves_the_program_its_memory(tmp_path: Path) -> None:
    """The program's mapping keeps what the server gave out."""
    with Member(tmp_path, PLAIN, environment=ON_CARD) as member:
        weights, gradients = member.begin()
        assert member.card is not None
        member.step(range(4))
        member.card.close()
        member.card = None
        assert member.step(range(4))["finite"]
        check_gradients(member, gradients, member.state(weights), [0, 1, 2, 3])
        member.memories.clear()
        assert member.end() == 0, member.log


def test_a_program_whose_worker_goes_is_not_stuck(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, environment=ON_CARD) as member:
        member.begin()
        member.socket.close()
        assert member.wait() == 1
        with pytest.raises((Ended, OSError, ValueError)):
            member.receive("stepped", seconds=1)
