"""Schedulers of torch.optim as tables, against the schedulers themselves."""

from __future__ import annotations

import bisect
import math
from typing import Any

import pytest
import torch

from paceline.errors import PacelineError
from paceline.schedules import MOST_POINTS, read_schedule, thin_out

schedulers = torch.optim.lr_scheduler


def optimizer(lr: float = 0.4) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def at(table: list[list[float]], epoch: float) -> float:
    """The factor at an epoch: lines between the points, and of two at one epoch the latter from there on."""
    epochs = [point[0] for point in table]
    after = bisect.bisect_right(epochs, epoch)
    if after == 0:
        return table[0][1]
    if after == len(table):
        return table[-1][1]
    (x0, y0), (x1, y1) = table[after - 1], table[after]
    return y0 + (y1 - y0) * (epoch - x0) / (x1 - x0)


def stepped(opt: torch.optim.Optimizer, scheduler: Any, count: int) -> list[float]:
    rates = []
    for _ in range(count):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedulers.StepLR(o, 2, gamma=0.5),
        lambda o: schedulers.MultiStepLR(o, [3, 5]),
        lambda o: schedulers.CosineAnnealingLR(o, 8),
        lambda o: schedulers.LambdaLR(o, lambda epoch: epoch / 4 if epoch < 4 else 1),
        lambda o: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.1, total_iters=3), schedulers.ExponentialLR(o, 0.8)], milestones=[3]
        ),
    ],
)
def test_of_epochs(make: Any) -> None:
    opt = optimizer()
    scheduler = make(opt)
    before = dict(opt.param_groups[0], params=None), scheduler.last_epoch
    found = read_schedule(opt, scheduler, "epoch", 8, samples=100, bulk=32)
    assert (dict(opt.param_groups[0], params=None), scheduler.last_epoch) == before
    assert found is not None and found["shape"] == "table"
    for epoch, rate in enumerate(stepped(opt, scheduler, 8)):
        for within in (0, 0.3, 0.99):
            assert 0.4 * at(found["table"], epoch + within) == pytest.approx(rate, abs=1e-9), epoch


def test_only_changes_are_said() -> None:
    opt = optimizer()
    found = read_schedule(opt, schedulers.MultiStepLR(opt, [30, 60]), "epoch", 90, 100, 10)
    expected = [[0, 1], [30, 1], [30, 0.1], [60, 0.1], [60, 0.01]]
    assert found is not None
    assert [point[0] for point in found["table"]] == [point[0] for point in expected]
    assert [point[1] for point in found["table"]] == pytest.approx([point[1] for point in expected])


def test_none_for_what_changes_nothing() -> None:
    opt = optimizer()
    assert read_schedule(opt, schedulers.StepLR(opt, 100), "epoch", 8, 100, 32) is None


@pytest.mark.parametrize(
    "make, epochs, samples, bulk, near",
    [
        (lambda o, n: schedulers.CosineAnnealingLR(o, n), 3, 50_000, 128, 1e-6),
        (lambda o, n: schedulers.OneCycleLR(o, 1.0, total_steps=n, cycle_momentum=False), 10, 50_000, 64, 1e-4),
        (lambda o, n: schedulers.MultiStepLR(o, [n // 2, n // 4 * 3]), 4, 10_000, 32, 1e-9),
        (lambda o, n: schedulers.CosineAnnealingWarmRestarts(o, n // 5), 5, 20_000, 32, 1e-4),
        (lambda o, n: schedulers.LambdaLR(o, lambda k: min(1.0, k / 100)), 2, 10_000, 32, 1e-9),
    ],
)
def test_of_steps(make: Any, epochs: float, samples: int, bulk: int, near: float) -> None:
    per_epoch = math.ceil(samples / bulk)
    count = int(epochs * per_epoch)
    opt = optimizer()
    scheduler = make(opt, count)
    found = read_schedule(opt, scheduler, "step", epochs, samples, bulk)
    assert found is not None and len(found["table"]) <= MOST_POINTS
    assert all(a[0] <= b[0] for a, b in zip(found["table"], found["table"][1:]))
    initial = opt.param_groups[0]["initial_lr"]
    highest = max(factor for _, factor in found["table"])
    for step in range(0, count):
        rate = opt.param_groups[0]["lr"]
        begins = step // per_epoch + step % per_epoch * bulk / samples
        assert at(found["table"], begins) == pytest.approx(rate / initial, abs=near * highest), step
        opt.step()
        if step + 1 < count:
            scheduler.step()


def test_jumps_stay_jumps() -> None:
    opt = optimizer()
    found = read_schedule(opt, schedulers.MultiStepLR(opt, [40]), "step", 2, 320, 8)
    assert found is not None
    assert found["table"] == [[0, 1], [1, 1], [1, pytest.approx(0.1)], [pytest.approx(79 / 40), pytest.approx(0.1)]]


def test_many_restarts_keep_their_shape() -> None:
    opt = optimizer()
    scheduler = schedulers.CosineAnnealingWarmRestarts(opt, 100)
    found = read_schedule(opt, scheduler, "step", 400, samples=100, bulk=1)
    assert found is not None and MOST_POINTS < len(found["table"]) <= 10_000
    for step, rate in enumerate(stepped(opt, scheduler, 40_000)):
        assert at(found["table"], step / 100) == pytest.approx(rate / 0.4, abs=2e-3), step


def square(jumps: int) -> list[tuple[float, float]]:
    return [(float(end), float(step % 2)) for step in range(jumps + 1) for end in (step, step + 1)]


def test_thousands_of_jumps_are_kept() -> None:
    points = square(3000)
    assert thin_out(points) == points


def test_a_schedule_that_no_table_follows_is_refused() -> None:
    with pytest.raises(PacelineError, match="than a table of 10000 points can follow; give"):
        thin_out(square(6000))


class Halving:
    """A scheduler of a person's own, which does not say the first rates."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] /= 2


class Greedy(Halving):
    """The same, of what is measured, as transformers' GreedyLR is."""

    def step(self, metrics: float, epoch: int | None = None) -> None:  # type: ignore[override]
        super().step()


class LikeTimm:
    """A scheduler that the loop tells the epoch, as timm's."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self, epoch: int, metric: float | None = None) -> None: ...


class OfDecay(schedulers.ExponentialLR):
    """A scheduler that moves the decay, too."""

    def step(self, epoch: int | None = None) -> None:
        super().step()
        self.optimizer.param_groups[0]["weight_decay"] += 0.5


def test_a_scheduler_of_ones_own() -> None:
    opt = optimizer()
    found = read_schedule(opt, Halving(opt), "epoch", 3, 320, 8)
    assert found == {"shape": "table", "table": [[0, 1], [1, 1], [1, 0.5], [2, 0.5], [2, 0.25]]}


def test_a_second_scheduler_of_the_optimizer_is_refused() -> None:
    opt = optimizer()
    warm_up, decay = schedulers.LinearLR(opt, 0.5), schedulers.StepLR(opt, 1)
    for one, other in ((decay, "LinearLR beside the StepLR"), (warm_up, "StepLR beside the LinearLR")):
        with pytest.raises(PacelineError, match=f"the optimizer has a {other} that join.. was given; make one"):
            read_schedule(opt, one, "epoch", 3, 320, 8)
    both = schedulers.ChainedScheduler([warm_up, decay])
    assert read_schedule(opt, InARow({"parts": (both,)}, opt), "epoch", 3, 320, 8)
    cycle: list[Any] = [warm_up]
    cycle.append(cycle)  # garbage
    del warm_up, one, both, cycle
    assert read_schedule(opt, decay, "epoch", 3, 320, 8)


class InARow:
    """A scheduler of one's own that consists of others."""

    def __init__(self, parts: Any, opt: Any) -> None:
        self.parts, self.optimizer = parts, opt

    def step(self) -> None:
        self.parts["parts"][0].step()


@pytest.mark.parametrize(
    "make, per, says",
    [
        (lambda o: schedulers.ReduceLROnPlateau(o), "epoch", "one process"),
        (lambda o: Greedy(o), "epoch", "Greedy looks at what one process measures"),
        (LikeTimm, "epoch", "step() of LikeTimm wants epoch=, and the servers step as"),
        (lambda o: OfDecay(o, 0.5), "epoch", "the scheduler changes weight_decay too, and a job has one; let"),
        (lambda o: schedulers.StepLR(o, 1), "batch", 'neither "epoch" nor "step"'),
        (lambda o: schedulers.StepLR(optimizer(), 1), "epoch", "another optimizer's"),
        (lambda o: "cosine", "epoch", "takes a scheduler of torch.optim, and not str"),
        (
            lambda o: [schedulers.StepLR(o, 1)],
            "epoch",
            "not list; give join() one, such as ChainedScheduler([...]) of",
        ),
        (lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=5, cycle_momentum=False), "epoch", "ends at step"),
        (lambda o: schedulers.LambdaLR(o, lambda e: -1.0 - e), "epoch", "is no rate"),
    ],
)
def test_refused(make: Any, per: str, says: str) -> None:
    opt = optimizer()
    with pytest.raises(PacelineError) as error:
        read_schedule(opt, make(opt), per, 10, 100, 10)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=3 * 1563, div_factor=4, cycle_momentum=False),
        lambda o: schedulers.CosineAnnealingLR(o, 3 * 1563),
        lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3 * 1563),
        lambda o: schedulers.SequentialLR(
            o,
            [schedulers.LinearLR(o, 0.1, total_iters=100), schedulers.CosineAnnealingLR(o, 3 * 1563 - 100)],
            [100],
        ),
    ],
)
def test_a_schedule_of_steps_that_is_taken_to_count_epochs_is_refused(make: Any) -> None:
    opt = optimizer()
    with pytest.raises(PacelineError, match='and the job has 3 epochs; write schedule_per="step"'):
        read_schedule(opt, make(opt), None, 3, 50_000, 32)
    opt = optimizer()
    assert read_schedule(opt, make(opt), "step", 3, 50_000, 32) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedulers.CosineAnnealingLR(o, 18),
        lambda o: schedulers.CosineAnnealingLR(o, 15),
        lambda o: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.1, total_iters=5), schedulers.CosineAnnealingLR(o, 13)], [5]
        ),
    ],
    ids=["all steps", "a short last batch left out", "warm-up"],
)
def test_a_schedule_as_long_as_a_small_jobs_steps_is_refused(make: Any) -> None:
    opt = optimizer()
    with pytest.raises(PacelineError, match='as long as the job in steps; write schedule_per="step"'):
        read_schedule(opt, make(opt), None, 3, 96, 16)


@pytest.mark.parametrize(
    "epochs, length, samples",
    [(3, 3, 50_000), (3, 3, 64), (3, 100, 50_000), (0.5, 90, 50_000), (90, 600, 50_000), (3, 29, 320)],
)
def test_the_beginning_of_a_longer_schedule_is_one(epochs: float, length: int, samples: int) -> None:
    opt = optimizer()
    read_schedule(opt, schedulers.CosineAnnealingLR(opt, length), None, epochs, samples, 32)


def linear(o: Any, steps: int, warm_up: int = 0) -> Any:
    """The scheduler of transformers' get_scheduler("linear")."""

    def factor(step: int) -> float:
        if step < warm_up:
            return step / max(1, warm_up)
        return max(0.0, (steps - step) / max(1, steps - warm_up))

    return schedulers.LambdaLR(o, factor)


STEPS = 3 * 1563  # 50,000 samples in batches of 32


@pytest.mark.parametrize(
    "make, epochs, says",
    [
        (lambda o: linear(o, STEPS), 3, f"the schedule is {STEPS} long, and the job has 3 epochs"),
        (lambda o: linear(o, STEPS - 3), 3, f"the schedule is {STEPS - 3} long"),
        (lambda o: linear(o, 1563), 1, "the schedule is 1563 long, and the job has 1 epochs"),
        (lambda o: schedulers.LambdaLR(o, lambda k: min(1.0, k / 100)), 10, "comes to 9% of its highest rate"),
        (lambda o: schedulers.LinearLR(o, 0.1, total_iters=500), 3, "comes to 10% of its highest rate"),
        (lambda o: schedulers.StepLR(o, 2000), 3, "the schedule hardly changes within 500 epochs, and it does"),
        (lambda o: schedulers.StepLR(o, 60_000), 60, "the schedule hardly changes within 600 epochs, and it does"),
        (lambda o: schedulers.MultiStepLR(o, [60_000, 80_000]), 60, "hardly changes within 600 epochs"),
        (lambda o: schedulers.LambdaLR(o, lambda k: 0.95 ** (k // 1000)), 3, "hardly changes within 500 epochs"),
        (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 9_000), 12, "hardly changes within 500 epochs"),
    ],
)
def test_a_schedule_that_needs_the_jobs_steps_is_refused(make: Any, epochs: float, says: str) -> None:
    opt = optimizer()
    with pytest.raises(PacelineError, match='; write schedule_per="step" if it counts steps') as error:
        read_schedule(opt, make(opt), None, epochs, 50_000, 32)
    assert says in str(error.value)
    for per in ("step", "epoch"):
        opt = optimizer()
        read_schedule(opt, make(opt), per, epochs, 50_000, 32)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedulers.StepLR(o, 1, gamma=0.7),
        lambda o: schedulers.StepLR(o, 30),
        lambda o: schedulers.MultiStepLR(o, [100, 150]),
        lambda o: schedulers.StepLR(o, 400),
        lambda o: schedulers.ExponentialLR(o, 0.999),
        lambda o: schedulers.ExponentialLR(o, 0.999875),
        lambda o: schedulers.LambdaLR(o, lambda e: 1 - max(0, e - 100) / 101),
        lambda o: schedulers.LambdaLR(o, lambda e: [1.0, 0.5, 0.1, 0.01, 0.001][e]),
        lambda o: schedulers.LambdaLR(o, lambda e: 1.0),
        lambda o: schedulers.LambdaLR(o, lambda e: (e + 1) / 20 if e < 20 else 1.0),
        lambda o: schedulers.CosineAnnealingLR(o, 30),
        lambda o: schedulers.OneCycleLR(o, 0.4, total_steps=100, div_factor=10, cycle_momentum=False),
        lambda o: linear(o, 300),
        lambda o: linear(o, 90, -1),
        Halving,
    ],
)
@pytest.mark.parametrize("epochs", [1, 2, 5])
@pytest.mark.parametrize("samples", [60_000, 32_000])
def test_the_first_epochs_of_a_schedule_of_epochs_are_tried(make: Any, epochs: float, samples: int) -> None:
    opt = optimizer()
    read_schedule(opt, make(opt), None, epochs, samples, 128, 32)


@pytest.mark.parametrize("length", [4689, 2346])
def test_a_lambda_that_is_longer_than_the_job_in_steps_counts_steps(length: int) -> None:
    opt = optimizer()
    with pytest.raises(PacelineError, match=f'the schedule is {length} long, .* write schedule_per="step"'):
        read_schedule(opt, linear(opt, length), None, 3, 50_000, 128, 32)


def test_a_lambda_as_long_as_a_small_job_counts_steps() -> None:
    opt = optimizer()
    with pytest.raises(PacelineError, match='as long as the job in steps; write schedule_per="step"'):
        read_schedule(opt, linear(opt, 18), None, 3, 96, 16)


def test_a_schedule_of_epochs_with_a_step_for_each_is_one() -> None:
    opt = optimizer()
    read_schedule(opt, schedulers.StepLR(opt, 2000), None, 100, 100, 100)


@pytest.mark.parametrize("short", [0, 1], ids=["whole epochs", "a short last batch left out"])
@pytest.mark.parametrize(
    "make",
    [
        lambda o, n: schedulers.OneCycleLR(o, 0.1, total_steps=n, cycle_momentum=False),
        lambda o, n: schedulers.CosineAnnealingLR(o, n),
        lambda o, n: linear(o, n),
        lambda o, n: linear(o, n, 100),
        lambda o, n: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.1, total_iters=50), schedulers.CosineAnnealingLR(o, n - 50)], [50]
        ),
    ],
)
def test_a_schedule_as_long_as_the_job_on_one_device_is_refused(make: Any, short: int) -> None:
    opt = optimizer()
    alone = 3 * (1563 - short)
    says = f"on one device .{alone} steps., and the job has 1173; make it for math.ceil.samples /"
    with pytest.raises(PacelineError, match=says):
        read_schedule(opt, make(opt, alone), "step", 3, 50_000, 128, 32)
    for length in (1173, alone + 1, 10_000):
        opt = optimizer()
        assert read_schedule(opt, make(opt, length), "step", 3, 50_000, 128, 32) is not None
    opt = optimizer()
    assert read_schedule(opt, make(opt, 3 * 1563), "step", 3, 50_000, 32, 32) is not None


def test_stairs_that_go_on_at_the_steps_of_one_device_are_taken() -> None:
    opt = optimizer()
    stairs = schedulers.LambdaLR(opt, lambda k: 0.5 ** (k // 500))
    assert read_schedule(opt, stairs, "step", 3, 32_000, 128, 32) is not None


def of_200_epochs(o: Any) -> Any:
    return schedulers.CosineAnnealingLR(o, 200)


def slow_start(o: Any) -> Any:
    return schedulers.LinearLR(o, 0.001, total_iters=100)


@pytest.mark.parametrize("make", [of_200_epochs, slow_start])
def test_who_says_that_it_counts_epochs_is_believed(make: Any) -> None:
    """The beginning of a job of 200 epochs, with few samples; and of one whose rate begins near nothing."""
    opt = optimizer()
    with pytest.raises(PacelineError, match='and schedule_per="epoch" if it does count epochs'):
        read_schedule(opt, make(opt), None, 2, 50_000, 256)
    opt = optimizer()
    found = read_schedule(opt, make(opt), "epoch", 2, 50_000, 256)
    assert found is not None and [epoch for epoch, _ in found["table"]] == [0, 1, 1]


def test_momentum_that_cycles_is_refused() -> None:
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    with pytest.raises(PacelineError, match="cycle_momentum=False"):
        read_schedule(opt, schedulers.OneCycleLR(opt, 1.0, total_steps=10), "epoch", 10, 100, 10)


def test_the_parameters_are_not_copied() -> None:
    parameter = torch.nn.Parameter(torch.zeros(10))
    opt = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    parameter.grad = torch.ones(10)
    opt.step()
    scheduler = schedulers.StepLR(opt, 1)
    copied = []
    parameter.__class__.__deepcopy__, original = (
        (lambda self, memo: copied.append(1)),
        parameter.__class__.__deepcopy__,
    )
    try:
        read_schedule(opt, scheduler, "epoch", 3, 100, 10)
    finally:
        parameter.__class__.__deepcopy__ = original
    assert not copied
