"""A worker's steps, against plain autograd at the same weights: gradients to the last bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from card import ON_CARD, ON_GPUS_CARD, needs_card
from fake_member import Member, Memory
from gpu import ON_CPU, ON_GPU, STAND_IN, agree, device_of, needs_gpu
from scripts import HEAD, LOOP

MODES = {
    "view": ({}, ON_CPU),
    "copy": ({"weights": "copy"}, ON_CPU),
    "stand-in": ({}, STAND_IN),
    "card": ({}, ON_CARD),
    "gpu": ({}, ON_GPU),
    "gpu's card": ({}, ON_GPUS_CARD),
}
NEEDS = {"card": needs_card, "gpu": needs_gpu, "gpu's card": needs_gpu}
in_each_mode = pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=NEEDS[mode]) if mode in NEEDS else mode for mode in MODES]
)

CPU = torch.device("cpu")

# Ways to write a program: make() is its model, compute() leaves gradients and returns the loss.
USUAL = """
def make():
    return Net()
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    return loss
"""
PROGRAMS = {
    "plain": "",
    "accumulated": """
def compute(model, x, y):
    total = 0
    for part in (slice(0, 3), slice(3, None)):
        loss = loss_of(model, x[part], y[part]) * len(y[part]) / len(y)
        loss.backward()
        total += loss.detach()
    return total
""",
    "several losses": """
def compute(model, x, y):
    hidden = model.first(x)
    one = F.cross_entropy(model.last(hidden), y)
    two = hidden.pow(2).mean()
    one.backward(retain_graph=True)
    two.backward()
    return one + two
""",
    "clipped": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    return loss
""",
    "clamped behind autograd's back": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.data.clamp_(-0.01, 0.01)
    return loss
""",
    "negated behind autograd's back": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.data.neg_()
    return loss
""",
    "of other memory": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data * 2
    return loss
""",
    "zeroed first": """
def compute(model, x, y):
    loss_of(model, x, y).mul(5).backward()
    model.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    return loss
""",
    "gradients set to None at the end": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    loss.backward()
    model.last.weight.grad = None
    return loss
""",
    "create_graph": """
def compute(model, x, y):
    loss = loss_of(model, x, y)
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    penalty = loss + sum(g.pow(2).sum() for g in gradients)
    penalty.backward(create_graph=True)
    return penalty
""",
    "autocast": """
def compute(model, x, y):
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x).float(), y)
    loss.backward()
    return loss
""",
    "unused parameters": """
def make():
    net = Net()
    net.unused = nn.Linear(2, 2)
    return net
""",
    "sparse gradients": """
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 3, sparse=True)
    def forward(self, x):
        return self.words((x[:, 0].abs() * 3).long().clamp(max=9))
def make():
    return Words()
""",
    "sparse gradients that replace": """
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 3, sparse=True)
    def forward(self, x):
        return self.words((x[:, 0].abs() * 3).long().clamp(max=9))
def make():
    return Words()
def compute(model, x, y):
    model.zero_grad(set_to_none=True)
    loss = loss_of(model, x, y)
    loss.backward()
    return loss
""",
    "bfloat16": """
def make():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).bfloat16()
def compute(model, x, y):
    loss = F.cross_entropy(model(x.bfloat16()).float(), y)
    loss.backward()
    return loss
""",
    "channels last": """
class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
    def forward(self, x):
        image = x.view(-1, 2, 1, 3).repeat(1, 1, 3, 1).contiguous(memory_format=torch.channels_last)
        return self.conv(image).mean((2, 3))
def make():
    return Image().to(memory_format=torch.channels_last)
""",
    "tied": """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(6, 6, bias=False)
        self.out = nn.Linear(6, 6, bias=False)
        self.out.weight = self.into.weight
    def forward(self, x):
        return self.out(torch.tanh(self.into(x)))
def make():
    return Tied()
""",
    "frozen": """
def make():
    net = Net()
    net.first.weight.requires_grad_(False)
    net.first.weight.data = torch.linspace(-1, 1, net.first.weight.numel()).view_as(net.first.weight)
    return net
""",
    "scalar and empty parameters": """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.nothing = nn.Parameter(torch.empty(0, 4))
    def forward(self, x):
        return self.net(x) * self.scale
def make():
    return Scaled()
""",
    "dropout": """
def make():
    return nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 3))
""",
}

STEPS = """
for x, y in job:
    job.step(compute(model, x, y))
"""


def script(program: str, arguments: str = "") -> str:
    return (
        HEAD
        + USUAL
        + program
        + f"\nmodel = make().to(paceline.device())\njob = paceline.join(model, Points(), {arguments})\n"
        + STEPS
    )


def same(program: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(HEAD + USUAL + program, scope)
    return scope


def computed(
    scope: dict[str, Any], state: dict[str, torch.Tensor], samples: list[int], device: torch.device = CPU
) -> Any:
    """The same program's model after the same step, without Paceline."""
    model = scope["make"]().to(device)
    model.load_state_dict({**model.state_dict(), **state})
    points = scope["Points"]()
    x = torch.stack([points[i][0] for i in samples]).to(device)
    y = torch.stack([points[i][1] for i in samples]).to(device)
    torch.manual_seed(7)
    loss = scope["compute"](model, x, y)
    return model, loss.item()


def check(
    member: Member,
    weights: Memory,
    gradients: Memory,
    scope: dict[str, Any],
    samples: list[int],
    device: torch.device = CPU,
) -> None:
    state = member.state(weights)
    answer = member.step(samples)
    model, loss = computed(scope, state, samples, device)
    assert answer["loss"] == pytest.approx(loss, rel=1e-6) and not answer["skipped"]
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.numel() == 0:
            continue  # there is nothing to send
        expected = torch.zeros_like(parameter).float() if parameter.grad is None else parameter.grad.float()
        expected = expected.to_dense() if expected.is_sparse else expected
        assert agree(member.tensor(gradients, name), expected), name
    for tensor in member.tensors:
        if tensor["kind"] == "statistic":
            name = tensor["name"]
            assert agree(member.tensor(gradients, name), model.state_dict()[name]), name


def take_step(member: Member, weights: Memory, gradients: Memory) -> None:
    """A server's step, more or less."""
    for tensor in member.tensors:
        if tensor["kind"] == "parameter":
            member.tensor(weights, tensor["name"]).sub_(0.1 * member.tensor(gradients, tensor["name"]))
        elif tensor["kind"] == "statistic":
            member.tensor(weights, tensor["name"]).copy_(member.tensor(gradients, tensor["name"]))
    gradients.floats.fill_(17)  # the memory of the next gradient is not zero


@in_each_mode
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_autograds_own(tmp_path: Path, program: str, mode: str) -> None:
    start, environment = MODES[mode]
    source = PROGRAMS[program]
    with Member(tmp_path, script(source), environment=environment, **start) as member:
        weights, gradients = member.begin()
        gradients.floats.fill_(17)
        scope = same(source)
        for step in range(3):
            check(member, weights, gradients, scope, [step * 8 + i for i in range(8)], device_of(environment))
            take_step(member, weights, gradients)
        assert member.end() == 0, member.log


def log_of_a_step(tmp_path: Path, body: str) -> str:
    """The log of a program that takes one step of four samples."""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step(range(4))
        member.end()
        return member.log


def test_the_view_path_copies_nothing(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    first = model.first.weight
    address, own = first.data_ptr(), first.grad.data_ptr()
    maps = [line for line in open("/proc/self/maps") if "memfd:memory" in line]
    def memory(at):
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= at < end:
                return line.split("memfd:")[1].split()[0], line.split()[1]
    print("weights in", *memory(address))
    print("gradients in", *memory(own))
    loss = loss_of(model, x, y)
    loss.backward()
    print("stayed", first.grad.data_ptr() == own)
    job.step(loss)
    print("given away", first.grad is None)
"""
    log = log_of_a_step(tmp_path, body)
    assert "weights in memory0 r--s" in log
    assert "gradients in memory1 rw-s" in log
    assert "stayed True" in log and "given away True" in log


def test_the_optimizers_zero_grad_keeps_the_view(tmp_path: Path) -> None:
    body = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), optimizer=optimizer)
for x, y in job:
    own = model.first.weight.grad.data_ptr()
    optimizer.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    print("stayed", model.first.weight.grad.data_ptr() == own)
    job.step(loss)
"""
    assert "stayed True" in log_of_a_step(tmp_path, body)


def test_weights_keep_their_memory_format(tmp_path: Path) -> None:
    body = """
model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 3)).to(memory_format=torch.channels_last)
job = paceline.join(model, Points())
for x, y in job:
    print("channels last", model[0].weight.is_contiguous(memory_format=torch.channels_last))
    image = x.view(-1, 2, 1, 3).repeat(1, 1, 3, 1).contiguous(memory_format=torch.channels_last)
    loss = F.cross_entropy(model(image), y)
    loss.backward()
    job.step(loss)
"""
    assert "channels last True" in log_of_a_step(tmp_path, body)


def test_each_parameter_has_a_storage_of_its_own(tmp_path: Path) -> None:
    """safetensors.save_model refuses parameters that share one."""
    body = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    places = [p.data.storage().data_ptr() for p in model.parameters()]
    sizes = [p.data.storage().size() == p.numel() for p in model.parameters()]
    print("own storages", len(set(places)) == len(places) and all(sizes))
    job.step(0.0)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step(range(4))
        member.end()
        assert "own storages True" in member.log


@in_each_mode
def test_places_in_several_memories(tmp_path: Path, mode: str) -> None:
    """Runs begin anywhere in a memory, and a memory's number is used again."""
    start, environment = MODES[mode]
    with Member(tmp_path, script(""), environment=environment, **start) as member:
        member.begin()
        scope = same("")
        cut = member.index("last.weight")
        behind = member.offsets[cut]
        initial = member.memories[0].floats.clone()
        for factor, (a, b) in ((1.0, (4, 5)), (1.1, (6, 7)), (1.2, (4, 5))):
            flat = initial.clone()
            flat[:behind] *= factor
            member.map(a, write=False, size=65536).floats[1024 : 1024 + behind] = flat[:behind]
            member.map(b, write=False, size=65536).floats[16 : 16 + len(flat) - behind] = flat[behind:]
            member.map(10, write=True, size=65536)
            member.map(11, write=True, size=65536)
            samples = [1, 2, 3, 5, 8]
            member.step(samples, weights=[[0, a, 4096], [cut, b, 64]], gradients=[[cut, 11, 128], [0, 10, 256]])
            member.memories[99] = whole = Memory(99, len(flat) * 4)
            whole.floats.copy_(flat)
            model, _ = computed(scope, member.state(whole), samples, device_of(environment))
            whole.floats[:behind] = member.memories[10].floats[64 : 64 + behind]
            whole.floats[behind:] = member.memories[11].floats[32 : 32 + len(flat) - behind]
            for name, parameter in model.named_parameters():
                assert agree(member.tensor(whole, name), parameter.grad), name
            for number in (a, b):
                member.send({"type": "unmap", "memory": number})
        assert member.end() == 0


@in_each_mode
def test_unmapped_memory_goes(tmp_path: Path, mode: str) -> None:
    body = """
model = Net().to(paceline.device())
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    print("mapped", *sorted({int(l.split()[4]) for l in open("/proc/self/maps") if "/memfd:" in l}))
    job.step(loss)
"""
    start, environment = MODES[mode]
    if environment == ON_GPUS_CARD:
        pytest.skip("no file of this process is mapped then")
    with Member(tmp_path, HEAD + body, environment=environment, **start) as member:
        member.begin()
        member.step(range(4))
        member.map(2, write=False).floats.copy_(member.memories[0].floats)
        member.map(3, write=True)
        for number in (0, 1):
            member.send({"type": "unmap", "memory": number})
        member.step(range(4), weights=[[0, 2, 0]], gradients=[[0, 3, 0]])
        member.step(range(4), weights=[[0, 2, 0]], gradients=[[0, 3, 0]])
        files = sorted(os.fstat(member.memories[number].fd).st_ino for number in (2, 3))
        member.end()
        assert member.log.splitlines()[-1] == " ".join(map(str, ["mapped", *files])), member.log


@in_each_mode
def test_a_memorys_number_is_used_again(tmp_path: Path, mode: str) -> None:
    body = """
model = Net().to(paceline.device())
job = paceline.join(model, Points())
for x, y in job:
    print("first", model.first.weight.flatten()[0].item())
    loss_of(model, x, y).backward()
    job.step(0.0)
"""
    start, environment = MODES[mode]
    with Member(tmp_path, HEAD + body, environment=environment, **start) as member:
        member.begin()
        places = {"weights": [[0, 0, 0]], "gradients": [[0, 1, 0]]}
        member.memories[0].floats.fill_(0.5)
        member.step(range(4), **places)
        for number, write in ((0, False), (1, True)):
            member.send({"type": "unmap", "memory": number})
            member.map(number, write=write).floats.fill_(0.25)
        member.step(range(4), **places)
        assert not torch.equal(member.memories[1].floats, torch.full_like(member.memories[1].floats, 0.25))
        member.end()
        assert [line for line in member.log.splitlines() if line.startswith("first")] == ["first 0.5", "first 0.25"]


@pytest.mark.parametrize("clears", ["optimizer.zero_grad()", "pass"])
@in_each_mode
def test_micro_batches_add_up(tmp_path: Path, mode: str, clears: str) -> None:
    """Without batch norm a batch in parts has the gradient of the whole."""
    program = """
def make():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
"""
    body = f"""
model = make().to(paceline.device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), optimizer=optimizer)
for x, y in job:
    print("part of", len(y))
    {clears}
    loss = compute(model, x, y)
    job.step(loss, {{"right": (model(x).argmax(1) == y).float().mean()}})
"""
    start, environment = MODES[mode]
    text = HEAD + USUAL + program + body
    with Member(tmp_path, text, environment=environment, **start) as member:
        weights, gradients = member.begin()
        for samples, micro, parts in (([*range(8)], 4, [4, 4]), ([*range(10)], 4, [4, 4, 2]), ([*range(3)], 8, [3])):
            answer = member.step(samples, micro_batch=micro)
            model, loss = computed(same(program), member.state(weights), samples, device_of(environment))
            assert answer["loss"] == pytest.approx(loss, rel=1e-5)
            assert answer["metrics"]["right"] <= 1
            for name, parameter in model.named_parameters():
                assert torch.allclose(member.tensor(gradients, name).cpu(), parameter.grad.cpu(), atol=1e-6), name
            assert [int(line.split()[-1]) for line in member.log.splitlines()][-len(parts) :] == parts
        assert member.end() == 0


def test_loss_and_metrics(tmp_path: Path) -> None:
    body = """
import math
model = Net()
job = paceline.join(model, Points())
values = [float("nan"), torch.tensor(float("inf")), torch.tensor([0.5]), 2]
for i, (x, y) in enumerate(job):
    loss_of(model, x, y).backward()
    job.step(values[i], {"right": torch.tensor(0.25), "nan": math.nan, "whole": 3})
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        answers = [member.step(range(4)) for _ in range(4)]
        assert [answer["loss"] for answer in answers] == [None, None, 0.5, 2.0]
        assert answers[0]["metrics"] == {"right": 0.25, "whole": 3.0}
        member.end()


def test_skipped(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    job.step(1.0, skipped=True)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        answer = member.step(range(4))
        assert answer["skipped"] is True and "retry" not in answer
        member.end()


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="this PyTorch has no GradScaler on the CPU")
def test_only_an_overflow_is_tried_again(tmp_path: Path) -> None:
    """A smaller loss scale makes a gradient that overflowed finite. What the program skips has none at any scale."""
    body = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
job = paceline.join(model, Points(), optimizer=optimizer, scaler=scaler)
for i, (x, y) in enumerate(job):
    loss = loss_of(model, x, y)
    if i == 3:
        loss = loss * float("nan")
    scaler.scale(loss).backward()
    if i in (1, 2):
        model.first.weight.grad[0, 0] = float("inf")
    job.step(loss, skipped=i == 2)
    print("scale", scaler.get_scale())
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        answers = [member.step(range(4)) for _ in range(5)]
        assert [answer["skipped"] for answer in answers] == [False, True, True, True, False]
        assert [answer.get("retry", False) for answer in answers] == [False, True, False, False, False]
        assert member.end() == 0, member.log
        scales = [float(line.split()[1]) for line in member.log.splitlines() if line.startswith("scale")]
        assert scales == [1024, 512, 256, 128, 128]  # a scaler hears of each


def test_a_program_may_step_its_scheduler(tmp_path: Path) -> None:
    body = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
job = paceline.join(model, Points(), optimizer=optimizer, schedule=schedule, schedule_per="step", epochs=2)
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
    schedule.step()
print("rate", schedule.get_last_lr())
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        for _ in range(3):
            member.step(range(4))
        assert member.end() == 0, member.log
        assert "rate [0.0625]" in member.log


def test_one_part_of_a_batch_that_is_skipped_is_the_batch(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
for i, (x, y) in enumerate(job):
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss, skipped=i == 1)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        assert member.step(range(6), micro_batch=2)["skipped"] is True
        assert member.step(range(6), micro_batch=2)["skipped"] is False
        member.end()


def test_a_metric_is_the_mean_over_the_parts_that_have_it(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
measured = [{"a": 4.0, "b": float("nan")}, {"a": 4.0, "b": 6.0}, {"b": 3.0}]
for i, (x, y) in enumerate(job):
    model(torch.ones(2, 6)).sum().backward()
    job.step(0.0, measured[i])
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        # means over 2, 2 and 1 samples
        assert member.step(range(5), micro_batch=2)["metrics"] == {"a": 4.0, "b": 5.0}
        member.end()


@in_each_mode
def test_a_gradient_that_is_finite(tmp_path: Path, mode: str) -> None:
    """If sums are made anyway, the program says whether they are finite, and the worker need not look."""
    body = """
model = Net().to(paceline.device())
job = paceline.join(model, Points())
for i, (x, y) in enumerate(job):
    loss = loss_of(model, x, y)
    loss.backward()
    if 1 <= i <= 3:
        where, value = [(0, float("nan")), (-1, float("-inf")), (0, 3e38)][i - 1]
        list(model.parameters())[where].grad.data.fill_(value)
    job.step(loss)
"""
    start, environment = MODES[mode]
    with Member(tmp_path, HEAD + body, environment=environment, **start) as member:
        member.begin()
        answers = [member.step(range(4)) for _ in range(5)]
        said = [answer.get("finite", False) for answer in answers]
        named = [answer.get("not_finite") for answer in answers]
        if environment in (ON_CARD, ON_GPUS_CARD):  # the worker cannot look
            assert said == [True, False, False, True, True]
            assert named == [None, "first.weight", "last.bias", None, None]
        else:
            # The last but one is finite, and its sum is not: that is for the worker to find.
            assert said == ([False] * 5 if mode in ("view", "copy") else [True, False, False, False, True])
            assert named == [None] * 5
        member.end()


def test_frozen_after_join(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    model.first.requires_grad_(False)
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""
    with Member(tmp_path, HEAD + body) as member:
        _, gradients = member.begin()
        gradients.floats.fill_(3)
        member.step(range(4))
        assert not member.tensor(gradients, "first.weight").any()
        assert member.tensor(gradients, "last.weight").any()
        member.end()


def test_the_step_does_not_reach_into_the_next(tmp_path: Path) -> None:
    """After step() gradients are the servers': what the program does to its own stays with it."""
    body = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), optimizer=optimizer)
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
    optimizer.zero_grad()
    model.zero_grad(set_to_none=False)
    print("zeroed", flush=True)
"""
    with Member(tmp_path, HEAD + body) as member:
        _, gradients = member.begin()
        member.step(range(4))
        member.step(range(4))
        assert "zeroed" in member.log
        first = member.tensor(gradients, "last.weight").clone()
        member.end()
        assert member.log.count("zeroed") == 2
        assert torch.equal(member.tensor(gradients, "last.weight"), first) and first.any()


@pytest.mark.parametrize("mode", ["view", "stand-in", pytest.param("card", marks=needs_card)])
def test_constants_and_buffers(tmp_path: Path, mode: str) -> None:
    body = """
class Held(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.net = Net()
        self.register_buffer("count", torch.tensor(5 * start))
        self.register_buffer("flags", torch.tensor([True, False, True, True, start > 1]))
        self.register_buffer("mask", torch.tensor([0.0, float("-inf")]) * start)
        self.register_buffer("scratch", torch.ones(3), persistent=False)
        self.register_buffer("moving", torch.full((2,), 1.0 * start))
        self.fixed = nn.Parameter(torch.full((3,), 2.0 * start).double(), requires_grad=False)
    def forward(self, x):
        self.moving += 1
        return self.net(x)

model = Held(int(sys.argv[1]))
job = paceline.join(model, Points())
for x, y in job:
    print(model.count.item(), *(t.tolist() for t in (model.flags, model.fixed, model.moving, model.scratch)))
    model.count += 1
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""
    for start in (1, 2):  # the values of one worker are everybody's
        with Member(tmp_path, HEAD + body, environment=MODES[mode][1], arguments=[str(start)]) as member:
            model = member.take_model()
            kinds = {tensor["name"]: (tensor["kind"], tensor["dtype"]) for tensor in model["tensors"]}
            if start == 1:
                assert kinds["count"] == ("constant", "int64") and kinds["flags"] == ("constant", "bool")
                assert kinds["mask"] == ("constant", "float32") and kinds["moving"] == ("statistic", "float32")
                assert "fixed" not in kinds and "scratch" not in kinds
                [frozen] = model["frozen"]
                assert len(frozen.pop("digest")) == 16
                assert frozen == {"name": "fixed", "shape": [3], "dtype": "float64"}
                initial = member.map(0, write=True)
                initial.floats.fill_(9)
                member.send({"type": "initial", "to": [[0, 0, 0]]})
                member.receive("done")
                values = initial.floats.clone()
                at = member.offsets[member.index("flags")] * 4
                assert bytes(initial.map[at : at + 8]) == bytes([1, 0, 1, 1, 0, 0, 0, 0])
            else:
                member.map(0, write=False).floats.copy_(values)
            gradients = member.map(1, write=True)
            gradients.floats.fill_(7)
            member.step(range(4))
            member.step(range(4))
            member.end()
            for name in ("count", "flags", "mask"):  # left alone
                at = member.offsets[member.index(name)]
                assert gradients.floats[at] == 7, name
            assert member.tensor(gradients, "moving").tolist() == [2, 2]
            lines = [line for line in member.log.splitlines() if line[0].isdigit()]
            fixed = [2.0 * start] * 3  # each process has its own
            assert lines[0] == f"5 [True, False, True, True, False] {fixed} [1.0, 1.0] [1.0, 1.0, 1.0]"
            assert lines[1].startswith("6 ")


def test_aliases(tmp_path: Path) -> None:
    with Member(tmp_path, script(PROGRAMS["tied"])) as member:
        model = member.take_model()
        assert [tensor["name"] for tensor in model["tensors"]] == ["into.weight"]
        assert model["aliases"] == [["out.weight", "into.weight"]]


def test_compiled(tmp_path: Path) -> None:
    if not hasattr(torch, "compile"):
        pytest.skip("this PyTorch has no torch.compile")
    body = """
import torch._dynamo
compiled = 0
def backend(graph, inputs):
    global compiled
    compiled += 1
    return graph.forward
plain = Net()
model = torch.compile(plain, backend=backend)
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
print("compiled", compiled)
"""
    with Member(tmp_path, HEAD + body) as member:
        weights, gradients = member.begin()
        scope = same("")
        assert member.tensors[0]["name"] == "first.weight"
        member.map(2, write=False)
        for step in range(4):
            member.memories[2].floats.copy_(weights.floats)
            member.step(range(8), weights=[[0, 2 * (step % 2), 0]])
            model, _ = computed(scope, member.state(weights), list(range(8)))
            for name, parameter in model.named_parameters():
                assert torch.allclose(member.tensor(gradients, name), parameter.grad, atol=1e-7), name
        assert member.end() == 0, member.log
        assert "compiled 1" in member.log


@in_each_mode
def test_after_the_end_the_model_is_the_programs_own(tmp_path: Path, mode: str) -> None:
    body = (
        """
device = paceline.device()
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), optimizer=optimizer)
"""
        + LOOP
        + """
optimizer.zero_grad()
with torch.no_grad():
    model.first.weight.mul_(2)
loss_of(model, torch.randn(4, 6, device=device), torch.zeros(4, device=device).long()).backward()
optimizer.step()
model.load_state_dict(Net().state_dict())
print("went on")
for epoch in range(3):
    for _ in job:
        raise AssertionError
"""
    )
    start, environment = MODES[mode]
    with Member(tmp_path, HEAD + body, environment=environment, **start) as member:
        member.begin()
        member.step(range(4))
        assert member.end() == 0, member.log
        assert "went on" in member.log
        assert member.log.count("leave the loop over epochs out") == 1
