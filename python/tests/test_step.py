"""A worker's steps, against plain autograd at the same weights."""

from pathlib import Path

import torch
from fake_member import Member
from scripts import HEAD, PLAIN


def reference(script_model: str = "Net()") -> "tuple[torch.nn.Module, object, dict[str, object]]":
    scope: dict[str, object] = {}
    exec(HEAD, scope)
    return eval(script_model, scope), eval("Points()", scope), scope


def plain_gradients(member, memory, samples, seed=7, model="Net()"):
    net, points, scope = reference(model)
    state = member.state(memory)
    net.load_state_dict({**net.state_dict(), **state})
    torch.manual_seed(seed)
    x = torch.stack([points[i][0] for i in samples])
    y = torch.stack([points[i][1] for i in samples])
    loss = scope["loss_of"](net, x, y)
    loss.backward()
    return net, float(loss)


def test_gradients_are_autograds_own(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        weights, gradients = member.begin()
        for step in range(3):
            samples = [step * 8 + i for i in range(8)]
            answer = member.step(samples)
            net, loss = plain_gradients(member, weights, samples)
            assert answer["loss"] == loss and not answer["skipped"]
            for name, parameter in net.named_parameters():
                assert torch.equal(member.tensor(gradients, name), parameter.grad), name
            for name, buffer in net.named_buffers():
                if buffer.is_floating_point():
                    assert torch.equal(member.tensor(gradients, name), buffer), name
            for name, parameter in net.named_parameters():
                member.tensor(weights, name).sub_(0.1 * parameter.grad)
        assert member.end() == 0
        assert "after the loop" in member.log
