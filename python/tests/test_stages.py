"""A model that is cut computes what the whole one does: to the last bit, at every cut and pair of cuts."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import pytest
import torch
from mixture_models import branches, mixtral, mixture
from stage_bench import BATCH, CPU, MICRO_BATCH, ROOM, SEED, Bench
from stage_models import PLAIN, TRANSFORMERS, UNet, _cross_entropy, _labelled
from torch import nn
from torch.utils.checkpoint import checkpoint

from paceline.absent_weights import places_of
from paceline.cuts import CannotCut
from paceline.errors import PacelineError
from paceline.inventory import PARAMETER, STATISTIC
from paceline.loading import Load
from paceline.micro_batches import cut

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")
skipped_without_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)


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


@pytest.mark.parametrize("size", [3, 6, 12])
def test_equal_micro_batches_give_the_same_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stage_bench.MICRO_BATCH", size)
    for name in ("mlp", "resnet", "added"):
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


class _DrawsBetween(nn.Module):
    """Draws what the next block gets, behind the dropout of its other argument."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Bilinear(6, 6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = len(x)
        for block in self.blocks:
            x = nn.functional.dropout(x, 0.3)
            x = block(x, torch.rand(rows, 6, device=x.device))
        return x


def test_what_is_drawn_between_two_blocks_is_the_same_in_every_stage() -> None:
    bench = check_every_cut(lambda: (_DrawsBetween(), _labelled(6, classes=6), _cross_entropy))
    assert bench.cuts.seams.draws_between
    assert not Bench(PLAIN["masked"]).cuts.seams.draws_between
    assert not Bench(PLAIN["encoder"]).cuts.seams.draws_between


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


def test_a_model_whose_blocks_have_losses_of_their_own_is_cut_behind_them_only() -> None:
    with pytest.raises(
        CannotCut, match=r"^blocks\.0 gives the loss more than its output.*output_router_logits=False"
    ):
        Bench(lambda: mixture(0, 2))
    bench = Bench(lambda: mixture(2))
    assert [unit.name for unit in bench.cuts.units] == ["blocks.0", "blocks.1", "blocks.2 to blocks.3"]


def test_a_loss_that_reads_all_parameters_does_not_keep_a_model_from_being_cut() -> None:
    check_every_cut(mixture, exact=False)


def test_a_block_that_gives_a_later_one_more_than_its_output_is_computed_with_it() -> None:
    class Residual(nn.Module):
        def __init__(self, values: list[torch.Tensor]) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.values = values

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.linear(x))
            self.values.append(x * 2)
            return x + self.values[0] if len(self.values) == 3 else x

    def case() -> Any:
        values: list[torch.Tensor] = []
        model, train_set, loss = nn.Sequential(*(Residual(values) for _ in range(4))), _labelled(6), _cross_entropy
        return model, train_set, lambda model, batch: [model[0].values.clear(), loss(model, batch)][1]

    assert [unit.name for unit in Bench(case).cuts.units] == ["0 to 2", "3"]


def test_branches_that_the_first_two_samples_do_not_take_are_trained() -> None:
    check_every_cut(branches)


@skipped_without_transformers
def test_a_mixture_of_experts_without_losses_of_its_own_computes_the_same_bits() -> None:
    check_every_cut(mixtral)


@skipped_without_transformers
def test_router_logits_that_hooks_collect_are_refused() -> None:
    with pytest.raises(CannotCut, match=r"^model\.layers\.0 gives the loss more than its output"):
        Bench(lambda: mixtral(router_logits=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_reentrant_checkpoint_around_a_block_is_named_if_it_keeps_a_model_from_being_cut(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return x

    def case() -> Any:
        return Checkpointed(), _labelled(6, classes=6), _cross_entropy

    if reentrant:
        with pytest.raises(CannotCut, match=r"^blocks\.\d\.\w+ gets its gradient.*write use_reentrant=False$"):
            Bench(case)
    else:
        check_every_cut(case)


class _CheckpointedNorms(nn.Module):
    """The gradient that its input requires is what a reentrant checkpoint needs."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU()) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def test_batch_norm_in_checkpointed_blocks_counts_as_often_as_in_plain_pytorch() -> None:
    bench = Bench(lambda: (_CheckpointedNorms(False), _labelled(6, classes=6), _cross_entropy))
    for part in cut(tuple(BATCH), MICRO_BATCH):
        bench.loss(bench.model, bench.loads[Load(part, 5)]).backward()
    plain = {name: buffer.clone() for name, buffer in bench.model.named_buffers()}
    assert len(plain) == 9 and float(plain["blocks.0.1.num_batches_tracked"]) == 6
    names = [entry.name for entry in bench.inventory.entries if entry.kind in (PARAMETER, STATISTIC)]
    for found in (bench.whole()[1], bench.in_stages([0, 1, 3])[1], bench.in_stages([0, 1, 2, 3])[1]):
        by_name = dict(zip(names, found))
        for name, one in plain.items():
            assert torch.equal(by_name[name], one.to(by_name[name].dtype)), name
    bench.close()


def test_a_reentrant_checkpoint_of_an_input_with_a_gradient_is_one_line() -> None:
    with pytest.raises(
        CannotCut, match=r"^the output of blocks\.0 is used again at test_stages\.py.*use_reentrant=False$"
    ):
        Bench(lambda: (_CheckpointedNorms(True), _labelled(6, classes=6), _cross_entropy))


class _Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[int | None] = []  # a block for each forward pass to come
        self.uses_extra = False
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left_out = self.dropped.pop(0) if self.dropped else None
        first = x
        for number, block in enumerate(self.blocks):
            if number != left_out:
                x = block(x)
            first = x if number == 0 else first
        return x + first if self.uses_extra else x


def dropping() -> Any:
    return _Dropping(), _labelled(6, classes=6), _cross_entropy


@pytest.mark.parametrize(
    ("dropped", "edge"),
    [([2], 2), ([None, None, None, 2], 2), ([3], 3)],
    ids=["the first block behind a stage", "a stage's own first block", "the last block of all"],
)
def test_a_micro_batch_that_leaves_out_the_block_at_a_cut_says_so(dropped: list[int | None], edge: int) -> None:
    bench = Bench(dropping)
    bench.model.dropped = dropped
    with pytest.raises(
        PacelineError, match=rf"did not call blocks\.{edge}, which begins a stage; set layerdrop to 0"
    ):
        bench.in_stages([0, edge, 4])
    bench.close()


def test_a_micro_batch_that_leaves_out_a_block_within_a_stage_is_computed() -> None:
    bench = Bench(dropping)
    bench.model.dropped = [1, 1, 1, 1, 1, 1]
    loss, found = bench.in_stages([0, 2, 4])
    bench.model.dropped = [1, 1, 1]
    assert bench.whole()[0] == loss
    bench.close()


def test_a_model_that_drops_a_block_from_the_first_samples_names_layerdrop() -> None:
    def case() -> Any:
        model, train_set, loss = dropping()
        model.dropped = [1]
        return model, train_set, loss

    with pytest.raises(CannotCut, match=r"calls blocks\.1 0 times.*set layerdrop to 0"):
        Bench(case)


def test_a_later_batch_that_uses_an_output_again_says_what_to_write() -> None:
    bench = Bench(dropping)
    bench.model.uses_extra = True
    with pytest.raises(PacelineError, match=r'is used again at .*first two samples.*parallel = "uneven-data"$'):
        bench.in_stages([0, 2, 4])
    bench.close()


def test_a_stage_that_leaves_in_the_middle_of_a_batch_computes_nothing_any_more() -> None:
    """An error of too little memory is none of the stage from then on."""
    bench = Bench(PLAIN["mlp"])
    stage = {"type": "stage", "stage": 0, "units": [0, 2], "samples": BATCH, "seed": SEED, "augment_seed": 5}
    rooms = {"in": bench.add_memory(ROOM), "out": bench.add_memory(ROOM)}
    places = {"micro_batch": MICRO_BATCH, "gradients": [[0, bench.gradients, 0]]}
    assert bench.stages.serve({**stage, **rooms, **places}) == {"type": "done"}
    bench.stages.serve({"type": "forward", "stage": 0, "micro": 0, "bytes": None})
    assert bench.stages.computing is not None
    assert (bench.stages.computing.samples, bench.stages.computing.parts) == (MICRO_BATCH, 3)
    bench.stages.serve({"type": "leave", "stage": 0})
    assert bench.stages.computing is None
    bench.close()
