"""Tests that need a GPU: registered memory, buckets on a side stream, loss scaling, compiled and captured models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_member import Member
from gpu import ON_GPU, agree, needs_gpu
from scripts import HEAD, LOOP

pytestmark = needs_gpu

WIDE = """
def make():
    return nn.Sequential(nn.Linear(6, 2048), nn.ReLU(), nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 2048),
                         nn.ReLU(), nn.Linear(2048, 3))
"""


def gradients_are_plain(tmp_path: Path, text: str, net: str, tolerance: float = 1e-4) -> str:
    """Three steps at weights that differ; what the program printed."""
    with Member(tmp_path, HEAD + net + text, environment=ON_GPU) as member:
        weights, gradients = member.begin()
        scope: dict = {}
        exec(HEAD + net, scope)
        points = scope["Points"]()
        for step in range(3):
            samples = [*range(8 * step, 8 * step + 8)]
            state = member.state(weights)
            gradients.floats.fill_(17)
            answer = member.step(samples)
            model = scope["make"]().cuda()
            model.load_state_dict(state)
            loss = scope["loss_of"](model, points.x[samples].cuda(), points.y[samples].cuda())
            loss.backward()
            assert answer["loss"] == pytest.approx(loss.item(), rel=tolerance) and not answer["skipped"]
            for name, parameter in model.named_parameters():
                ours, plain = member.tensor(gradients, name), parameter.grad.cpu()
                assert (ours - plain).abs().max() <= tolerance * plain.abs().max(), (step, name)
                member.tensor(weights, name).sub_(0.1 * plain)
        assert member.end() == 0, member.log
        return member.log


def test_gradients_of_many_buckets(tmp_path: Path) -> None:
    text = """
model = make().to(paceline.device())
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    early = sum(bucket.sent is not None for bucket in job._binding.now._buckets)
    print("on their way", early, "of", len(job._binding.now._buckets))
    job.step(loss)
"""
    log = gradients_are_plain(tmp_path, text, WIDE)
    assert "on their way 3 of 3" in log, log


def test_the_driver_knows_shared_memory(tmp_path: Path) -> None:
    text = """
model = make().to(paceline.device())
job = paceline.join(model, Points())
""" + LOOP.replace(
        "    job.step",
        "    print('known', [one.known for one in job._binding.now._transfers._registered])\n    job.step",
    )
    assert "known [True, True]" in gradients_are_plain(tmp_path, text, WIDE)


def test_memory_that_the_driver_refuses(tmp_path: Path) -> None:
    """The copies are right all the same, and nothing of the refusal shows in the program's own work."""
    text = """
import paceline.device_binding as binding
class Refusing:
    def __init__(self, driver):
        self._driver = driver
    def cudaHostRegister(self, address, size, flags):
        return self._driver.cudaHostRegister(address + 1, 0, 1 << 30)
    def __getattr__(self, name):
        return getattr(self._driver, name)
driver = binding._driver
binding._driver = lambda: Refusing(driver())
model = make().to(paceline.device())
job = paceline.join(model, Points())
""" + LOOP.replace(
        "    job.step",
        "    print('known', [one.known for one in job._binding.now._transfers._registered])\n    job.step",
    )
    log = gradients_are_plain(tmp_path, text, WIDE)
    assert "known [False, False]" in log and log.count("the GPU's driver cannot register shared memory") == 1


@pytest.mark.parametrize("how", ["", ", mode='reduce-overhead'"])
def test_compiled(tmp_path: Path, how: str) -> None:
    text = f"""
plain = make().to(paceline.device())
model = torch.compile(plain{how})
job = paceline.join(model, Points())
{LOOP}
"""
    gradients_are_plain(tmp_path, text, WIDE, tolerance=1e-3)


def test_a_loss_scaler(tmp_path: Path) -> None:
    text = """
model = make().to(paceline.device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
job = paceline.join(model, Points(), optimizer=optimizer, scaler=scaler)
for i, (x, y) in enumerate(job):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_of(model, x, y)
    scaler.scale(loss).backward()
    if i == 1:
        model[0].weight.grad[0, 0] = float("inf")
    job.step(loss)
    print("scale", scaler.get_scale())
"""
    with Member(tmp_path, HEAD + WIDE + text, environment=ON_GPU) as member:
        _, gradients = member.begin()
        answers = [member.step(range(4)) for _ in range(3)]
        assert [answer["skipped"] for answer in answers] == [False, True, False]
        assert member.tensor(gradients, "6.weight").isfinite().all() and member.tensor(gradients, "6.weight").any()
        assert member.end() == 0, member.log
        scales = [line for line in member.log.splitlines() if line.startswith("scale")]
        assert scales == ["scale 1024.0", "scale 512.0", "scale 512.0"]


def test_work_on_streams_of_the_program(tmp_path: Path) -> None:
    """Gradients that another stream computes are waited for."""
    text = """
device = paceline.device()
model = make().to(device)
job = paceline.join(model, Points())
side = torch.cuda.Stream(device)
for x, y in job:
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        loss = loss_of(model, x, y)
        loss.backward()
    torch.cuda.current_stream().wait_stream(side)
    job.step(loss)
"""
    gradients_are_plain(tmp_path, text, WIDE)


def test_too_little_memory(tmp_path: Path) -> None:
    text = """
model = make().to(paceline.device())
job = paceline.join(model, Points())
for x, y in job:
    torch.empty(1 << 44, device=x.device)
"""
    with Member(tmp_path, HEAD + WIDE + text, environment=ON_GPU) as member:
        member.begin()
        member.order(range(4))
        error = member.receive("error")
        assert "out of memory" in error["text"] and error["where"].startswith("train.py:"), error
        assert member.wait() == 1


def test_agreement_is_checked() -> None:
    one = torch.ones(3, device="cuda")
    assert agree(one.cpu(), one) and not agree(one.cpu() * 1.01, one)
