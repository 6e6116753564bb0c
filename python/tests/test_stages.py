"""A model that is cut computes what the whole one does: to the last bit, at every cut and pair of cuts."""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import sys
import weakref
from typing import Any

import pytest
import torch
from stage_models import PLAIN, SAMPLES, TRANSFORMERS, UNet, _cross_entropy, _labelled

from paceline.absent_weights import places_of
from paceline.cuts import CannotCut, Cuts, find_cuts
from paceline.inventory import PARAMETER, STATISTIC, Inventory, take_inventory
from paceline.kept_memory import KeptMemory
from paceline.loading import Load, Loads, to_device
from paceline.memories import FLOAT, Memories
from paceline.micro_batches import MicroBatches, cut
from paceline.seeding import seed_step
from paceline.stage_forward import StageForward
from paceline.stages import Stages
from paceline.trees import leaves

ROOM = 1 << 20
SEED = 11
BATCH = list(range(SAMPLES))
MICRO_BATCH = 5  # three micro-batches, the last of two samples
CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")
skipped_without_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)


class Bench:
    """A model with its gradient memory, computed whole or in stages."""

    def __init__(self, case: Any, asked: Any = None, device: torch.device = CPU) -> None:
        torch.manual_seed(3)
        self.model, train_set, self.loss = case()
        self.model.train().to(device)
        self.device = device
        self.loads = Loads(train_set, None)
        self.inventory: Inventory = take_inventory(self.model, of_stages=True)
        first = to_device(self.loads[Load((0, 1), 0)], device)
        self.cuts: Cuts = find_cuts(self.model, self.inventory, self.loss, first, 2, asked)
        self.before = [entry.tensor.detach().clone() for entry in self.inventory.entries]
        self.memories = Memories(len(self.inventory.entries), device)
        offsets, self.floats = [], 0
        for entry in self.inventory.entries:
            offsets.append(self.floats)
            self.floats += -(-entry.count // 16) * 16
        self.memories.lay_out({"offsets": offsets, "floats": self.floats})
        self.files: list[int] = []
        self.gradients = self.add_memory(self.floats * FLOAT)
        self.stages = Stages(
            self.model,
            self.inventory,
            self.memories,
            self.loss,
            self.cuts,
            lambda load: self.loads[load],
            lambda message, weights: self.reset(),
            device,
        )
        self.numbers = itertools.count()
        self.epoch = 0

    def add_memory(self, size: int) -> int:
        file = os.memfd_create("test")
        os.truncate(file, size)
        self.files.append(file)
        number = len(self.files) - 1
        path = f"/proc/self/fd/{file}"
        self.memories.map({"memory": number, "path": path, "bytes": size, "write": True})
        return number

    def close(self) -> None:
        for file in self.files:
            os.close(file)

    @torch.no_grad()
    def reset(self, weights: Any = None) -> None:
        """The first values; of weights that are not wanted, numbers that are none."""
        for index, (entry, value) in enumerate(zip(self.inventory.entries, self.before)):
            if entry.is_buffer:
                if weights is None:
                    entry.tensor.copy_(value)
            else:
                held = weights is None or index in weights
                nothing = torch.full((), math.nan, dtype=entry.dtype, device=self.device).expand(entry.shape)
                entry.tensor.data = value if held else nothing

    def whole(self) -> tuple[float, list[torch.Tensor]]:
        self.reset()
        micro = MicroBatches(self.inventory, cut(tuple(BATCH), MICRO_BATCH))
        seams = self.cuts.seams
        for index, part in enumerate(micro.parts):
            micro.start(index)
            batch = to_device(self.loads[Load(part, 5)], self.device)
            seed_step(SEED + index, self.device)
            with StageForward(seams, 0, len(seams.blocks), (), SEED + index, device=self.device) as forward:
                value = self.loss(self.model, batch)
                value, _, weight = value if isinstance(value, tuple) else (value, {}, None)
                forward.recompute()
                value.backward()
            micro.measured(float(value.detach()), {}, None if weight is None else float(weight))
            micro.collect()
        result = []
        for entry in self.inventory.entries:
            if entry.kind == PARAMETER:
                result.append(
                    torch.zeros_like(entry.tensor) if entry.tensor.grad is None else entry.tensor.grad.clone()
                )
                entry.tensor.grad = None
            elif entry.kind == STATISTIC:
                result.append(entry.tensor.clone())
        return micro.loss, result

    def in_stages(self, edges: list[int]) -> tuple[float, list[torch.Tensor]]:
        [span] = self.memories.spans([[0, self.gradients, 0]])
        self.memories.floats_view(span, 0, self.floats).fill_(math.nan)
        names = [next(self.numbers) for _ in edges[1:]]
        self.ranges = dict(zip(names, zip(edges, edges[1:])))
        rooms = [(self.add_memory(ROOM), self.add_memory(ROOM)) for _ in names]
        for name, first, last, (inside, outside) in zip(names, edges, edges[1:], rooms):
            begun = self.stages.serve(
                {
                    "type": "stage",
                    "stage": name,
                    "units": [first, last],
                    "samples": BATCH,
                    "seed": SEED,
                    "epoch": self.epoch,
                    "augment_seed": 5,
                    "micro_batch": MICRO_BATCH,
                    "gradients": [[0, self.gradients, 0]],
                    "in": inside,
                    "out": outside,
                }
            )
            assert begun == {"type": "done"}
        # The stages before the last one have all forward passes first: each keeps several micro-batches.
        parts = cut(tuple(BATCH), MICRO_BATCH)
        sent: list[Any] = []
        for micro in range(len(parts)):
            size: Any = None
            for place, name in enumerate(names[:-1]):
                said = self.serve({"type": "forward", "stage": name, "micro": micro, "bytes": size})
                size = self.hand_on(rooms, place, place + 1, said["bytes"])
            sent.append((size, self.memories.file(rooms[-1][0]).view(0, size or 0, torch.uint8).clone()))
        loss = 0.0
        for micro, (size, message) in enumerate(sent):
            self.memories.file(rooms[-1][0]).view(0, size or 0, torch.uint8).copy_(message)
            said = self.serve({"type": "forward_backward", "stage": names[-1], "micro": micro, "bytes": size})
            loss += len(parts[micro]) / len(BATCH) * said["loss"]
            for place, name in reversed(list(enumerate(names))[:-1]):
                size = self.hand_on(rooms, place + 1, place, said["bytes"])
                said = self.serve({"type": "backward", "stage": name, "micro": micro, "bytes": size})
        for name in names:
            finished = self.serve({"type": "finish", "stage": name})
            assert finished["type"] == "finished"
            loss = finished.get("loss", loss)
            assert self.stages.serve({"type": "leave", "stage": name}) is None
        span = self.memories.spans([[0, self.gradients, 0]])[0]
        found = [
            self.memories.view(span, index, entry.count, torch.float32).view(entry.shape).clone()
            for index, entry in enumerate(self.inventory.entries)
            if entry.kind in (PARAMETER, STATISTIC)
        ]
        return loss, found

    def serve(self, message: Any) -> Any:
        """The answer of a process that has no other stage."""
        self.reset(self.cuts.weights(*self.ranges[message["stage"]]))
        return self.stages.serve(message)

    def hand_on(self, rooms: Any, place: int, other: int, size: int) -> int:
        source, target = self.memories.file(rooms[place][1]), self.memories.file(rooms[other][0])
        target.view(0, size, torch.uint8).copy_(source.view(0, size, torch.uint8))
        return size


def check_every_cut(case: Any, exact: bool = True, device: torch.device = CPU) -> Bench:
    bench = Bench(case, device=device)
    units = len(bench.cuts.units)
    assert units > 1
    loss, expected = bench.whole()
    names = [entry.name for entry in bench.inventory.entries if entry.kind in (PARAMETER, STATISTIC)]
    cuts = [*itertools.combinations(range(1, units), 1), *itertools.combinations(range(1, units), 2)]
    for one in [*cuts, tuple(range(1, units))]:
        found_loss, found = bench.in_stages([0, *one, units])
        assert found_loss == loss if exact else found_loss == pytest.approx(loss, rel=1e-5), one
        for name, a, b in zip(names, [each.cpu() for each in expected], found):
            same = torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-4, atol=1e-6)
            assert same, f"{name} differs at the cuts {one}: by {(a - b).abs().max()} of {a.abs().max()}"
    bench.close()
    return bench


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", [name for name in PLAIN if name != "conditioned"])
def test_a_cut_model_on_a_gpu_computes_what_the_whole_one_does(name: str) -> None:
    check_every_cut(PLAIN[name], exact=False, device=torch.device("cuda"))


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "conditioned"])
def test_a_cut_model_computes_the_same_bits(name: str) -> None:
    check_every_cut(PLAIN[name])


@pytest.mark.parametrize("name", ["mlp", "encoder", "resnet"])
def test_units_keep_what_the_whole_model_keeps_for_its_backward_pass(name: str) -> None:
    bench = Bench(PLAIN[name])
    kept = KeptMemory(bench.model)
    with kept.counting():
        bench.loss(bench.model, to_device(bench.loads[Load((0, 1), 0)], CPU))
    whole = kept.bytes / 2  # for one sample; the batch has two
    # The input of a unit is the output of the one before it, and two stages have it both.
    assert whole <= sum(unit.kept_bytes for unit in bench.cuts.units) <= 1.3 * whole


@skipped_without_transformers
def test_the_cuts_of_an_encoder_with_a_decoder_are_in_the_encoder() -> None:
    units = Bench(TRANSFORMERS["t5"]).cuts.units
    assert [unit.name for unit in units] == [
        "encoder.block.0",
        "encoder.block.1",
        "encoder.block.2 to decoder.block.2",
    ]


@skipped_without_transformers
@pytest.mark.parametrize("name", ["gpt2", "qwen", "vit", "lora"])
def test_embeddings_and_heads_are_held_by_the_stages_that_use_them(name: str) -> None:
    bench = Bench(TRANSFORMERS[name])
    in_blocks = {one for block in bench.cuts.seams.blocks for one in block.module.modules()}
    blocks = {place.number for place in places_of(bench.model, bench.inventory) if place.is_in(in_blocks)}
    first, *between, last = [unit.weights - blocks for unit in bench.cuts.units]
    assert first
    assert last
    assert not set().union(*between)
    names = [entry.name for entry in bench.inventory.entries]
    tied = {"gpt2": {"transformer.wte.weight"}, "qwen": {"model.embed_tokens.weight"}}
    assert {names[index] for index in first & last} == tied.get(name, set())


def test_a_block_that_hides_its_forward_pass_says_so() -> None:
    def case() -> Any:
        model, train_set, loss = PLAIN["mlp"]()
        model[3].compile(backend="eager")
        return model, train_set, loss

    with pytest.raises(CannotCut, match=r"^3 is compiled by its compile\(\).*torch\.compile\(block\) instead$"):
        Bench(case)


def test_generators_that_no_block_uses_are_not_seeded_for_each() -> None:
    assert Bench(PLAIN["drawing"]).cuts.seams.others_draw
    assert not Bench(PLAIN["mlp"]).cuts.seams.others_draw


def test_a_stage_loads_its_micro_batches_in_their_epoch() -> None:
    bench = Bench(PLAIN["mlp"])
    loads: list[Load] = []
    bench.stages._get = lambda load: [loads.append(load), bench.loads[load]][1]
    bench.epoch = 3
    bench.in_stages([0, len(bench.cuts.units)])
    assert loads == [Load(part, 5, 3) for part in cut(tuple(BATCH), MICRO_BATCH)]


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


@pytest.mark.parametrize("size", [3, 6, 12])
def test_equal_micro_batches_give_the_same_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MICRO_BATCH", size)
    for name in ("mlp", "resnet"):
        check_every_cut(PLAIN[name])


@skipped_without_transformers
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_cut_model_of_transformers_computes_the_same_bits(name: str) -> None:
    check_every_cut(TRANSFORMERS[name])


def test_what_every_block_gets_adds_up_to_its_gradient() -> None:
    # Each stage computes its own part of the gradient behind that, so the sum runs in another order.
    bench = check_every_cut(PLAIN["conditioned"], exact=False)
    assert [unit.name for unit in bench.cuts.units] == ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]
    names = [entry.name for entry in bench.inventory.entries]
    assert {names[index]: units for index, units in bench.cuts.shared.items()} == {
        "time.weight": [0, 1, 2],
        "time.bias": [0, 1, 2],
    }


def unet() -> Any:
    return UNet(), _labelled(6), _cross_entropy


def test_cuts_across_a_skip_are_no_cuts() -> None:
    bench = check_every_cut(unet)
    assert [unit.name for unit in bench.cuts.units] == ["down.0 to up.1", "up.2", "tail.0", "tail.1"]


def test_a_model_of_skips_alone_says_what_is_used_again_where() -> None:
    def case() -> Any:
        return UNet(to_the_end=True), _labelled(6), _cross_entropy

    with pytest.raises(CannotCut, match=r"the output of down\.0 is used again at stage_models\.py:\d+ \(add\)"):
        Bench(case)


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


def test_a_stage_that_leaves_in_the_middle_of_a_batch_computes_nothing_any_more() -> None:
    """An error of too little memory is none of the stage from then on."""
    bench = Bench(PLAIN["mlp"])
    stage = {"type": "stage", "stage": 0, "units": [0, 2], "samples": BATCH, "seed": SEED, "augment_seed": 5}
    rooms = {"in": bench.add_memory(ROOM), "out": bench.add_memory(ROOM)}
    places = {"micro_batch": MICRO_BATCH, "gradients": [[0, bench.gradients, 0]]}
    assert bench.stages.serve({**stage, **rooms, **places}) == {"type": "done"}
    bench.stages.serve({"type": "forward", "stage": 0, "micro": 0, "bytes": None})
    assert bench.stages.computing is not None and bench.stages.computing.samples == MICRO_BATCH
    bench.stages.serve({"type": "leave", "stage": 0})
    assert bench.stages.computing is None
    bench.close()


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
