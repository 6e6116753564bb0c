"""The memory of a stage, and its waits for its device."""

from __future__ import annotations

import math
import weakref
from typing import Any

import pytest
import torch
from stage_bench import BATCH, CPU, MICRO_BATCH, ROOM, SEED, Bench
from stage_models import PLAIN

from paceline.binding import has_own_memory
from paceline.cuts import find_cuts
from paceline.inventory import take_inventory
from paceline.kept_memory import KeptMemory
from paceline.loading import Load
from paceline.moving import to_device
from paceline.stage_forward import StageForward
from paceline.stages import Stages
from paceline.trees import leaves
from paceline.unit_placement import UnitPlacement

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")


@pytest.mark.parametrize("name", ["mlp", "encoder", "resnet"])
def test_units_keep_what_the_whole_model_keeps_for_its_backward_pass(name: str) -> None:
    bench = Bench(PLAIN[name])
    kept = KeptMemory(bench.model)
    with kept.counting():
        bench.loss(bench.model, to_device(bench.loads[Load((0, 1), 0)], CPU))
    whole = kept.bytes / 2  # for one sample; the batch has two
    # The input of a unit is the output of the one before it, and two stages have it both.
    assert whole <= sum(unit.kept_bytes for unit in bench.cuts.units) <= 1.3 * whole


def settled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], set[int]]:
    """How often each kind of message to each of two stages waits for the device, by its first unit."""
    settles: list[None] = []
    found: dict[tuple[str, int], set[int]] = {}
    serve = bench.serve

    def counted(message: Any) -> Any:
        settles.clear()
        answer = serve(message)
        found.setdefault((message["type"], bench.ranges[message["stage"]][0]), set()).add(len(settles))
        return answer

    monkeypatch.setattr(bench.memories, "settle", lambda: settles.append(None))
    monkeypatch.setattr(bench, "serve", counted)
    bench.in_stages([0, 1, len(bench.cuts.units)])
    return found


def test_a_first_stage_answers_when_its_device_has_computed_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settled(Bench(PLAIN["mlp"]), monkeypatch)["backward", 0] == {1}


def test_activations_that_the_program_has_not_waited_for_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that computes blocks on a CUDA stream of its own waits for it behind them."""
    assert settled(Bench(PLAIN["mlp"]), monkeypatch)["forward", 0] == {1}


def test_memory_is_a_tensors_own_if_no_other_tensor_has_it() -> None:
    one = torch.ones(3)
    assert has_own_memory(one)
    other = one.view(3, 1)
    assert not has_own_memory(one) and not has_own_memory(other)
    del other
    assert has_own_memory(one)
    assert not has_own_memory(one.to_sparse())  # PyTorch can name no memory of a sparse tensor


@pytest.mark.parametrize("size", [5, 6])
def test_a_stage_adds_gradients_up_in_the_memory_that_they_have(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no room for another copy of the largest one."""
    monkeypatch.setattr("stage_bench.MICRO_BATCH", size)
    bench = Bench(PLAIN["added"])
    add, names, copied = Stages._add, [entry.name for entry in bench.inventory.entries], set()

    def recorded(stages: Stages, stage: Any, micro: int, index: int, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        place = 0 if gradient is None else gradient.data_ptr()
        del gradient
        add(stages, stage, micro, index, parameter)
        if micro == 0 and stage.sums[index].data_ptr() != place:
            copied.add(names[index])

    monkeypatch.setattr(Stages, "_add", recorded)
    bench.in_stages([0, 1, len(bench.cuts.units)])
    assert copied == {f"{block}.{name}" for block in range(3) for name in ("b", "c")}


def test_a_stage_has_lost_the_gradients_of_others_when_it_adds_up_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of shared weights are as large as the weights."""
    arrived: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    read, collect = Stages._read, Stages._collect

    def recorded(stages: Stages, stage: Any, size: int | None) -> list[Any]:
        tensors = read(stages, stage, size)
        arrived[:] = [weakref.ref(one) for one in tensors if one is not None]
        return tensors

    def counted(stages: Stages, stage: Any, micro: int) -> None:
        if arrived and stage.end < len(stages._cuts.units):
            alive.append(sum(one() is not None for one in arrived))
        collect(stages, stage, micro)

    monkeypatch.setattr(Stages, "_read", recorded)
    monkeypatch.setattr(Stages, "_collect", counted)
    bench = Bench(PLAIN["conditioned"])
    bench.in_stages([0, 1, len(bench.cuts.units)])
    assert set(alive) == {0}


def test_a_stage_holds_no_activation_of_another_after_its_last_pass() -> None:
    """Its replaced methods refer to it, so what it held would live until the garbage collector runs."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    inventory = take_inventory(model, of_stages=True)
    cuts = find_cuts(model, inventory, lambda one, batch: one(batch).sum(), torch.ones(2, 4), 2, None)
    received = [torch.ones(2, 4, requires_grad=True)]
    alive = weakref.ref(received[0])
    passing = StageForward(cuts.seams, cuts.units[1].first, cuts.units[1].last)
    with passing.begin_with(received, None):
        model(torch.ones(2, 4))
    del received
    assert alive() is None


def test_the_search_for_cuts_keeps_no_activation_and_one_gradient_at_a_time() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))

    def loss(model: Any, batch: Any) -> Any:
        value = model(batch).sum()
        assert math.isfinite(value.item())  # the model itself has to be computed
        return value

    counts: list[int] = []
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(
            lambda _: counts.append(sum(one.grad is not None for one in parameters))
        )
    cuts = find_cuts(model, take_inventory(model, of_stages=True), loss, torch.ones(2, 4), 2, None)
    assert len(cuts.units) == 3
    outputs = [tensor for _, tensor in leaves(cuts.seams.outputs)]
    assert len(outputs) == 3 and all(one.is_meta and one.dtype == torch.float32 for one in outputs)
    assert set(counts) == {1}
    assert all(one.grad is None for one in parameters)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_model_that_needs_values_is_cut_on_the_device_that_computes(
    has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cpu:0 is the same memory under a name that the model's tensors do not have, so it counts as another device."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
    before = {
        name: (one, one.data_ptr(), one.detach().clone()) for name, one in model.state_dict(keep_vars=True).items()
    }
    at_home: set[bool] = set()

    def record(layer: Any, _: Any) -> None:
        if type(layer.weight) is torch.nn.Parameter and not layer.weight.is_meta:  # not what is absent from a stage
            at_home.add(layer.weight.data_ptr() == before["2.weight"][1])

    model[2].register_forward_pre_hook(record)

    def loss(model: Any, batch: Any) -> Any:
        assert math.isfinite(batch.sum().item())
        return model(batch).sum()

    def none(*_: Any) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("no room")

    if not has_room:
        monkeypatch.setattr(UnitPlacement, "_there", none)
    inventory = take_inventory(model, of_stages=True)
    cuts = find_cuts(model, inventory, loss, torch.randn(2, 4), 2, None, torch.device("cpu", 0))
    assert [unit.name for unit in cuts.units] == ["0", "1", "2"]
    assert at_home == {not has_room}
    for name, one in model.state_dict(keep_vars=True).items():
        tensor, place, values = before[name]
        assert one is tensor and one.data_ptr() == place and torch.equal(one, values), name
        assert one.grad is None


def test_both_ends_of_a_channel_make_the_same_room_for_activations() -> None:
    """Only one of them may have found the cuts on a device where the program's autocast is on."""

    def room(autocast: bool) -> list[int]:
        model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
        dtypes = set()

        def loss(model: Any, batch: Any) -> Any:
            assert math.isfinite(batch.sum().item())
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                value = model(batch)
            dtypes.add(value.dtype)
            return value.float().sum()

        cuts = find_cuts(model, take_inventory(model, of_stages=True), loss, torch.ones(2, 4), 2, None)
        assert dtypes == {torch.bfloat16 if autocast else torch.float32}
        return [unit.message_bytes for unit in cuts.units]

    assert room(True) == room(False) == [16, 16, 0]


def test_a_search_for_cuts_on_the_cpu_asks_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator of random numbers that is asked for its state has a context there, and that has memory."""
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda *card: [asked.append(card), torch.zeros(1)][1])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda *_: None)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    values = []

    def loss(model: Any, batch: Any) -> Any:
        values.append(batch.sum().item())
        return model(batch).sum()

    find_cuts(model, take_inventory(model, of_stages=True), loss, torch.ones(2, 4), 2, None)
    assert values and asked == []


def test_a_pass_without_memory_for_its_statistics_leaves_the_models_own(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(PLAIN["resnet"])
    before = dict(bench.model.named_buffers())
    bench.stages._recuts = True
    clone, room = torch.Tensor.clone, [3]

    def short(tensor: torch.Tensor) -> torch.Tensor:
        room[0] -= 1
        if room[0] < 0:
            raise torch.cuda.OutOfMemoryError("no room")
        return clone(tensor)

    begun = {"type": "stage", "stage": 0, "units": [0, 1], "samples": BATCH, "seed": SEED, "augment_seed": 5}
    rooms = {"in": bench.add_memory(ROOM), "out": bench.add_memory(ROOM)}
    bench.stages.serve({**begun, **rooms, "micro_batch": MICRO_BATCH, "gradients": [[0, bench.gradients, 0]]})
    monkeypatch.setattr(torch.Tensor, "clone", short)
    said = bench.stages.serve({"type": "forward", "stage": 0, "micro": 0, "bytes": None})
    monkeypatch.undo()
    assert said is not None and said["type"] == "out_of_memory" and room[0] < 0
    assert all(buffer is before[name] for name, buffer in bench.model.named_buffers())
    bench.close()
