"""Every part that a model may have trains to plain PyTorch's weights and loads strictly, or ends in one line with a way out."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
import torch
from all_parts import all_parts
from one_process import RATE, OneProcess
from part import Part
from torch import nn

from paceline.errors import PacelineError

STEPS = 3


class Model(nn.Module):
    """The part, and a parameter, since a job needs one that is trained."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.scale = part, nn.Parameter(torch.ones(()))

    def loss(self, inputs: Any) -> torch.Tensor:
        given, named = inputs
        total = torch.zeros(())
        for value in _floats(self.part(*given, **named)):
            total = total + (value.float() * self.scale).tanh().pow(2).mean()  # so that no step is a large one
        return total


def _floats(value: Any) -> list[torch.Tensor]:
    if torch.is_tensor(value):
        return [value] if value.is_floating_point() else []
    if hasattr(value, "values") and callable(value.values):  # transformers' outputs
        value = list(value.values())
    return [one for each in value for one in _floats(each)] if isinstance(value, (list, tuple)) else []


def model_of(part: Part) -> Model:
    torch.manual_seed(1)
    module = part.make()
    module.train()
    torch.manual_seed(2)
    part.before(module)
    return Model(module)


def plain(part: Part, disturbed: bool = False) -> Model:
    """disturbed: each weight is one rounding off, more or less."""
    model = model_of(part)
    if disturbed:
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + 2.0**-23 * torch.randint(-1, 2, weight.shape))
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    inputs = part.inputs()
    for step in range(STEPS):
        torch.manual_seed(10 + step)
        optimizer.zero_grad()
        model.loss(inputs).backward()
        optimizer.step()
    return model


def ours(part: Part) -> tuple[OneProcess, dict[str, torch.Tensor]]:
    model = model_of(part)
    job = OneProcess(model)
    inputs = part.inputs()
    for step in range(STEPS):
        torch.manual_seed(10 + step)
        job.step(lambda: model.loss(inputs))
    return job, job.exported()


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference of two numbers at the same place."""
    return max(
        float((one[name].double() - value.double()).abs().max()) for name, value in other.items() if value.numel() > 0
    )


def outcome(part: Part) -> str:
    """ "trained", "trained, loads with strict=False", "refused", or "not computed by PyTorch"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = plain(part)
        except Exception as error:
            if not part.refused:
                return f"not computed by PyTorch: {type(error).__name__}: {error}"
            expected = None
        try:
            job, file = ours(part)
        except PacelineError as error:
            line = str(error)
            assert part.refused and "\n" not in line and part.refused in line, f"{part.name}: {line}"
            return "refused"
        assert not part.refused, f"{part.name} is not refused"
        assert expected is not None
        state = {name: value for name, value in expected.state_dict().items() if torch.is_tensor(value)}
        off = 0.0
        frozen = {entry.name for entry in job.inventory.entries if entry.kind == "constant"}
        for name, value in state.items():
            if value.numel() == 0 or name in frozen:
                continue
            tolerance = 1e-2 if value.dtype == torch.bfloat16 else 2e-5
            near = torch.allclose(file[name].double(), value.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
            if not near:  # batch norm over few values multiplies each rounding
                off = off or distance(plain(part, disturbed=True).state_dict(), state)
                assert distance(file, state) < off, (part.name, name, file[name], value)
        fresh = model_of(part)
        loaded = fresh.load_state_dict(file, strict=False)
        job.close()
    assert not loaded.unexpected_keys, (part.name, loaded)
    with_nothing = [n for n, v in fresh.state_dict().items() if not torch.is_tensor(v) or v.numel() == 0]
    assert set(loaded.missing_keys) <= set(with_nothing), (part.name, loaded)
    return "trained, loads with strict=False" if loaded.missing_keys else "trained"


def test_every_part() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for part in all_parts():
        try:
            result = outcome(part)
        except Exception as error:
            wrong.append(f"{part.kind}: {part.name}: {type(error).__name__}: {str(error)[:300]}")
            continue
        counts[part.kind, result.partition(":")[0]] += 1
        if ":" in result:
            print(part.kind, part.name, result[:200])
    for (kind, result), count in sorted(counts.items()):
        print(f"{kind}: {count} {result}")
    print(f"{sum(counts.values())} parts, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)


def test_statistics_that_have_no_mean_after_commits_that_are_parts_of_rounds() -> None:
    torch.manual_seed(0)
    linear = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4))
    older = nn.utils.spectral_norm(nn.Linear(4, 4))
    model = Model(nn.Sequential(linear, nn.BatchNorm1d(4), older))
    job = OneProcess(model)
    for _ in range(20):
        inputs = ((torch.randn(5, 6),), {})
        job.step(lambda inputs=inputs: model.loss(inputs), pull=0.25)  # type: ignore[misc]
    # A round is four of them.
    assert int(job.exported()["part.1.num_batches_tracked"]) == 5
    job.evaluator()
    vectors = {name: value for name, value in model.named_buffers() if name.endswith(("_u", "_v"))}
    assert len(vectors) == 4
    for name, vector in vectors.items():
        assert float(vector.norm()) == pytest.approx(1, abs=2e-5), name
    job.close()
