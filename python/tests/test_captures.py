"""CUDA graphs of the program, without a GPU: what is refused, and what stays out of a graph."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from card import ON_CARD, needs_card
from fake_member import Member
from gpu import STAND_IN
from scripts import HEAD, LOOP
from strict_driver import Stream

from paceline.device_binding import CudaTransfers
from paceline.errors import PacelineError
from paceline.first_batches import FirstBatches
from paceline.inventory import PARAMETER

# A module's forward pass is replaced by a function of this name, in PyTorch 1.13 as in 2.13.
CAPTURE = """
def make_graphed_callables(module):
    plain = module.forward
    def make_graphed_forward():
        def new_fwd(*arguments):
            return plain(*arguments)
        return new_fwd
    module.forward = make_graphed_forward()
model = Net()
model.outer = Net()
"""


def test_pytorch_still_names_the_function_so() -> None:
    code = torch.cuda.graphs.make_graphed_callables.__code__
    inner = [one for one in code.co_consts if getattr(one, "co_name", "") == "make_graphed_forward"]
    assert len(inner) == 1 and any(getattr(one, "co_name", "") == "new_fwd" for one in inner[0].co_consts)


@pytest.mark.parametrize("environment", [STAND_IN, pytest.param(ON_CARD, marks=needs_card)], ids=["host", "card"])
@pytest.mark.parametrize(
    ("captured", "named"),
    [("model.first", "first"), ("model", "the model"), ("model.outer", "")],
)
def test_a_module_that_was_captured_before_its_weights_move_is_refused(
    tmp_path: Path, environment: dict[str, str], captured: str, named: str
) -> None:
    body = CAPTURE + "model.outer.requires_grad_(False)\n" + f"make_graphed_callables({captured})\n"
    with Member(
        tmp_path, HEAD + body + "job = paceline.join(model, Points())\n" + LOOP, environment=environment
    ) as member:
        member.begin()
        member.order(range(4))
        if named:
            assert member.receive("error")["text"] == (
                f"{named} was captured by make_graphed_callables() before its weights got their place in the job, and "
                "a CUDA graph goes on with the memory that they had; capture it in the loop, at the first batch"
            )
            assert member.wait() == 1
        else:
            member.receive("stepped")
            assert member.end() == 0, member.log


def test_a_module_may_be_captured_in_the_loop(tmp_path: Path) -> None:
    loop = LOOP.replace(
        "    loss =", "    if job.samples[0] == 0:\n        make_graphed_callables(model)\n    loss =", 1
    )
    body = CAPTURE + "job = paceline.join(model, Points())\n" + loop
    with Member(tmp_path, HEAD + body, environment=STAND_IN) as member:
        member.begin()
        for step in range(2):
            member.step(range(4 * step, 4 * step + 4))
        assert member.end() == 0, member.log


@pytest.mark.parametrize("is_cuda", [True, False])
def test_the_line_about_no_gradient_names_graphs_on_a_gpu(is_cuda: bool) -> None:
    parameter = SimpleNamespace(grad=None, is_cuda=is_cuda)
    inventory: Any = SimpleNamespace(entries=[SimpleNamespace(kind=PARAMETER, name="a", tensor=parameter)])
    first = FirstBatches(inventory, has_scaler=False)
    with pytest.raises(PacelineError) as raised:
        for _ in range(3):
            first.start()
            first.computed(weighted=False)
    assert str(raised.value).endswith("capture it in the loop, at the first batch") == is_cuda


@pytest.mark.parametrize("captures", [True, False])
def test_a_backward_pass_that_is_captured_sends_nothing(tmp_path: Path, captures: bool) -> None:
    """The step sends all at its end."""
    body = f"""
import paceline.device_binding as binding
binding.Transfers.captures = lambda self: job.samples[0] == 0 and {captures}
binding.Transfers.aside = lambda self: print("aside") or contextlib.nullcontext()
import contextlib
model = Net()
job = paceline.join(model, Points())
{LOOP}"""
    with Member(tmp_path, HEAD + body, environment=STAND_IN) as member:
        _, gradients = member.begin()
        found = []
        for _ in range(2):
            gradients.floats.fill_(17)
            member.step(range(4))
            found.append(gradients.floats.clone())
        gradients.floats.fill_(17)
        member.step(range(4, 8))
        assert member.end() == 0, member.log
        assert member.log.splitlines().count("aside") == (1 if captures else 3)
        assert torch.equal(*found) and found[0].any() and not (found[0] == 17).any()


def test_a_gpu_says_whether_its_stream_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    transfers = CudaTransfers(torch.device("cuda", 0))
    for captures in (True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=captures: now)
        assert transfers.captures() == captures
