"""A program in the role of the evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_member import Member
from gpu import ON_CPU, ON_GPU, STAND_IN, needs_gpu
from scripts import HEAD, LOOP


def evaluator(tmp_path: Path, evaluate: str, **more: Any) -> Member:
    text = (
        HEAD
        + "model = Net().to(paceline.device())\n"
        + evaluate
        + "\njob = paceline.join(model, Points(), evaluate=evaluate)\n"
    )
    return Member(tmp_path, text + LOOP + "print('after the loop')", role="evaluator", **more)


def ask(member: Member) -> dict[str, Any]:
    member.send({"type": "evaluate", "version": 3, "weights": [[0, 0, 0]]})
    return member.receive()


@pytest.mark.parametrize("environment", [ON_CPU, STAND_IN, pytest.param(ON_GPU, marks=needs_gpu)])
def test_it_measures_the_weights_of_the_message(tmp_path: Path, environment: dict[str, str]) -> None:
    evaluate = """
def evaluate(net):
    assert net is model and not net.training and not net.norm.training and not torch.is_grad_enabled()
    return {"loss": model.first.weight.sum(), "mean": model.norm.running_mean.sum().item(), "n": 3, "bad": float("nan")}
model.last.eval()
"""
    with evaluator(tmp_path, evaluate, environment=environment) as member:
        member.take_model()
        weights = member.map(0, write=False)
        for value in (1.0, 2.0):
            member.tensor(weights, "first.weight").fill_(value)
            member.tensor(weights, "norm.running_mean").fill_(-value)
            answer = ask(member)
            expected = {"loss": 48 * value, "mean": -8 * value, "n": 3, "bad": None}
            assert answer == {"type": "evaluated", "metrics": expected}
        assert member.end() == 0, member.log
        assert "after the loop" in member.log


def test_each_evaluation_draws_the_same_numbers(tmp_path: Path) -> None:
    """Evaluations of two policies, or before and after a restart, differ by the weights alone."""
    evaluate = """
import random
def evaluate(net):
    return {"torch": torch.rand(()), "python": random.random()}
"""
    with evaluator(tmp_path, evaluate) as member:
        member.take_model()
        member.map(0, write=False)
        first = ask(member)["metrics"]
        assert ask(member)["metrics"] == first and first["torch"] != first["python"]
        assert member.end() == 0, member.log


def test_it_has_no_memory_for_gradients(tmp_path: Path) -> None:
    rooms = """
import paceline.flat_weights as flat_weights
made, make = [], flat_weights.FlatWeights.new_room
def counted(weights):
    made.append(weights)
    return make(weights)
flat_weights.FlatWeights.new_room = counted
def evaluate(net):
    return {"loss": 0.0, "rooms": len(made)}
"""
    with evaluator(tmp_path, rooms, environment=STAND_IN) as member:
        member.take_model()
        member.map(0, write=False)
        assert [ask(member)["metrics"]["rooms"] for _ in range(2)] == [1, 1]
        assert member.end() == 0, member.log


def test_the_mode_is_as_before(tmp_path: Path) -> None:
    evaluate = """
times = 0
def evaluate():
    global times
    times += 1
    if times == 2:
        print("modes", before)
    model.train(times == 1)
    return torch.tensor([0.25])
model.last.eval()
import paceline.evaluation as evaluation
measure = evaluation.measure
def measured(*arguments):
    global before
    before = None
    result = measure(*arguments)
    print("modes", [module.training for module in model.modules()])
    return result
import paceline.job
paceline.job.measure = measured
"""
    with evaluator(tmp_path, evaluate) as member:
        member.take_model()
        member.map(0, write=False)
        assert ask(member)["metrics"] == {"loss": 0.25}
        member.end()
        assert "modes [True, True, True, False]" in member.log


def test_an_evaluation_without_a_finite_number_is_one(tmp_path: Path) -> None:
    """A model that diverges for a while is evaluated again afterwards."""
    with evaluator(tmp_path, "def evaluate():\n    return float('nan')") as member:
        member.take_model()
        member.map(0, write=False)
        for _ in range(2):
            assert ask(member) == {"type": "evaluated", "metrics": {"loss": None}}
        assert member.end() == 0, member.log


@pytest.mark.parametrize(
    "evaluate, says",
    [
        ("def evaluate():\n    return {'loss': 'low'}", "the metric 'loss' is not one number but str"),
        (
            "def evaluate():\n    return torch.zeros(2)",
            "the metric 'loss' is not one number but a Tensor of shape [2]",
        ),
        (
            "def evaluate():\n    return 0.5, 0.75",
            'evaluate returned a tuple, and its numbers need names; let it return a dict, such as {"loss": loss, "acc',
        ),
        (
            "def evaluate(loader):\n    return sum(x for x in loader)",
            "'Net' object is not iterable; evaluate is called with the model, which is its loader here: let it take",
        ),
        (
            "def evaluate(epoch):\n    return float(epoch % 5 == 0)",
            "and 'int'; evaluate is called with the model, which is its epoch here: let it take the model or nothing",
        ),
        ("def evaluate():\n    pass", "evaluate returned nothing"),
        ("def evaluate():\n    return {}", "evaluate returned an empty dict"),
        ("def evaluate():\n    raise KeyError('test set')", "KeyError: 'test set'"),
        ("def evaluate():\n    return {f'm{i}': 1 for i in range(101)}", "101 metrics are more than 100"),
        ("def evaluate():\n    return {'x' * 101: 1}", "1 to 100 bytes"),
    ],
)
def test_what_is_no_measurement(tmp_path: Path, evaluate: str, says: str) -> None:
    with evaluator(tmp_path, evaluate) as member:
        member.take_model()
        member.map(0, write=False)
        error = ask(member)
        assert error["type"] == "error" and says in error["text"] and error["where"].startswith("train.py:")
        assert member.wait() == 1


@pytest.mark.parametrize("argument", ["net", "loader"])
def test_an_error_about_something_else_says_nothing_of_the_argument(tmp_path: Path, argument: str) -> None:
    wrong = "for x in net" if argument == "net" else "for x in 3"
    with evaluator(tmp_path, f"def evaluate({argument}):\n    {wrong}: pass") as member:
        member.take_model()
        member.map(0, write=False)
        assert ask(member)["text"].endswith("object is not iterable")


def test_a_rate_that_it_sets_is_refused(tmp_path: Path) -> None:
    program = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.5)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
def evaluate():
    plateau.step(1.0)
    return 1.0
job = paceline.join(model, Points(), optimizer=optimizer, evaluate=evaluate)
"""
    with Member(tmp_path, HEAD + program + LOOP, role="evaluator") as member:
        member.take_model()
        member.map(0, write=False)
        assert ask(member)["metrics"] == {"loss": 1.0}
        error = ask(member)
        assert error["type"] == "error" and error["text"] == (
            "the optimizer's lr was 0.5 at join() and is 0.05 now, and evaluate() runs in a process that trains "
            "nothing, so that the servers step with the first; give join() schedule= with any scheduler of "
            "torch.optim but ReduceLROnPlateau, such as LambdaLR, or write [schedule] in the job file"
        )


@pytest.mark.parametrize("stages", [False, True])
def test_an_evaluator_of_stages_says_where_it_computes(tmp_path: Path, stages: bool) -> None:
    """Each page moves batches to paceline.device(), and so a whole model; with stages it is where it was built."""
    evaluate = """
model = Net()
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1
def evaluate():
    found = f"{paceline.device()} and {next(model.parameters()).device}"
    raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {found}!")
"""
    with evaluator(tmp_path, evaluate, stages=stages, environment={"PACELINE_DEVICE": ""}) as member:
        member.take_model()
        member.map(0, write=False)
        error = ask(member)
        assert error["where"] == f"train.py:{HEAD.count(chr(10)) + 7}"
        says = (
            "two devices, cuda:0 and cpu!; in a job with stages the evaluator computes where the program built the "
        )
        says += "model, which is cpu here: move batches to next(model.parameters()).device, or set evaluate.device"
        assert error["text"].endswith(says if stages else "cuda:0 and cpu!")


def test_evaluate_takes_one_argument_or_none(tmp_path: Path) -> None:
    with evaluator(tmp_path, "def evaluate(model, data):\n    return 1") as member:
        assert "evaluate(model) or evaluate()" in member.receive("error")["text"]


def test_the_models_own_method_with_options(tmp_path: Path) -> None:
    evaluate = """
class Test:
    def run(self, net, batches=3):
        return float(batches)
evaluate = Test().run
"""
    with evaluator(tmp_path, evaluate) as member:
        member.take_model()
        member.map(0, write=False)
        assert ask(member)["metrics"] == {"loss": 3.0}


def test_without_evaluate_nothing_is_measured(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + "job = paceline.join(Net(), Points())\n" + LOOP, role="evaluator") as member:
        member.take_model()
        member.map(0, write=False)
        assert ask(member) == {"type": "evaluated", "metrics": {}}


def test_weights_that_were_bound_are_only_read(tmp_path: Path) -> None:
    with evaluator(tmp_path, "def evaluate():\n    model.first.weight.mul_(2)\n    return 1") as member:
        member.take_model()
        member.map(0, write=False)
        error = ask(member)
        assert error["type"] == "error" and "first.weight" in error["text"] and error["where"] == "train.py:32"
