"""optimizer.zero_grad() between two backward passes of a batch: a line comes if a parameter is not trained by that."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_member import Member
from scripts import HEAD

PROGRAM = (
    HEAD
    + """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)
model = Two()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), optimizer=optimizer)
for x, y in job:
    optimizer.zero_grad()
{body}
    job.step(1.0)
"""
)
LINE = (
    "paceline: optimizer.zero_grad() has thrown away the gradient of {name} and 1 more, which a backward pass before it "
    "in the same batch had computed, and there is none at job.step(). Leave zero_grad() between two backward passes out, "
    "and let each loss reach its own part alone: loss.backward(inputs=[*part.parameters()])"
)
LOST = {
    "the first of two parts": (
        "model.a(x).sum().backward()\noptimizer.zero_grad()\nmodel.b(x).sum().backward()",
        "a.weight",
    ),
    "a part that is frozen for the other one": (
        """
        model.b(model.a(x).detach()).sum().backward()
        optimizer.zero_grad(set_to_none=True)
        model.b.requires_grad_(False)
        model.b(model.a(x)).sum().backward()
        model.b.requires_grad_(True)
        """,
        "b.weight",
    ),
}
KEPT = {
    "zero_grad() at the top alone": "model.b(model.a(x)).sum().backward()",
    "two passes without zero_grad()": "model.a(x).sum().backward()\nmodel.b(x).sum().backward()",
    "a pass for the inputs": """
        model.b(model.a(x.requires_grad_())).sum().backward()
        x = x + x.grad.sign()
        optimizer.zero_grad()
        model.b(model.a(x.detach())).sum().backward()
        """,
    "the gradient of a part of the loss, to look at": """
        model.b(x).sum().backward()
        optimizer.zero_grad()
        (model.b(model.a(x)).sum() + model.b(x).sum()).backward()
        """,
    "gradients that are put together": """
        model.a(x).sum().backward()
        first = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        optimizer.zero_grad()
        model.b(x).sum().backward()
        for p, one in zip(model.parameters(), first):
            p.grad = p.grad + one
        """,
    "a gradient of zero": """
        (0.0 * model.a(x).sum()).backward()
        optimizer.zero_grad()
        model.b(x).sum().backward()
        """,
}


def log_of(tmp_path: Path, body: str) -> str:
    lines = [line.strip() if "\n        " in body else line for line in body.strip().splitlines()]
    indented, depth = [], "    "
    for line in lines:
        indented.append(depth + line)
        depth = "        " if line.endswith(":") else "    "
    with Member(tmp_path, PROGRAM.replace("{body}", "\n".join(indented))) as member:
        member.begin()
        for _ in range(2):
            member.step(range(4))
        assert member.end() == 0, member.log
        return member.log


@pytest.mark.parametrize("body", LOST)
def test_a_gradient_that_is_lost(tmp_path: Path, body: str) -> None:
    text, name = LOST[body]
    said = [line for line in log_of(tmp_path, text).splitlines() if line.startswith("paceline: ")]
    assert said == [LINE.format(name=name)]


@pytest.mark.parametrize("body", KEPT)
def test_gradients_that_are_thrown_away_on_purpose(tmp_path: Path, body: str) -> None:
    assert "paceline: " not in log_of(tmp_path, KEPT[body])
