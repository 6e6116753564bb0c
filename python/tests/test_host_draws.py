"""Outside its blocks a pass draws the same numbers on every device. The processor stands for devices that draw others."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from stage_bench import CPU, Bench
from stage_models import _labelled
from test_stages import check_every_cut
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from paceline import host_draws, stage_forward
from paceline.random_draws import OutsideBlocks

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")

DRAWS = host_draws._DRAWS


class Card(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A device with a generator of its own, from which all numbers come that the host does not draw for it."""

    of_host = False

    def __init__(self, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._state = torch.Generator().manual_seed(100 + number).get_state()
        self.draws = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        own = any(isinstance(one, torch.Generator) for one in (*args, *kwargs.values()))
        if own or Card.of_host or func._schema.name.partition("::")[2] not in DRAWS:
            return func(*args, **kwargs)
        self.draws += 1
        before = torch.default_generator.get_state()
        torch.default_generator.set_state(self._state)
        try:
            return func(*args, **kwargs)
        finally:
            self._state = torch.default_generator.get_state()
            torch.default_generator.set_state(before)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (host_draws, stage_forward):
        monkeypatch.setattr(module, "draws_otherwise", lambda device: device.type != "meta")
    for name in ("_drawn", "_dropped_out"):

        def on_host(*arguments: Any, draw: Callable[..., Any] = getattr(host_draws, name)) -> Any:
            Card.of_host = True
            try:
                return draw(*arguments)
            finally:
                Card.of_host = False

        monkeypatch.setattr(host_draws, name, on_host)


def probabilities() -> torch.Tensor:
    return torch.arange(1.0, 25).view(4, 6).t() / 30


def strided() -> torch.Tensor:
    return torch.zeros(40, 3)[:, ::2]


CALLS: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(20, dtype=torch.float64),
    "randn": lambda: torch.randn((4, 7), device=CPU),
    "randn_out": lambda: torch.randn(20, out=torch.empty(20)),
    "randint": lambda: torch.randint(3, 90, (20,)),
    "randperm": lambda: torch.randperm(20),
    "normal": lambda: torch.normal(probabilities(), 2.0),
    "normal_of_numbers": lambda: torch.normal(1.0, 2.0, (20,)),
    "bernoulli": lambda: torch.bernoulli(probabilities()),
    "bernoulli_p": lambda: torch.bernoulli(probabilities(), 0.3),
    "multinomial": lambda: torch.multinomial(probabilities(), 3),
    "poisson": lambda: torch.poisson(probabilities()),
    "binomial": lambda: torch.binomial(torch.full((6, 4), 9.0), probabilities()),
    "rand_like": lambda: torch.rand_like(probabilities()),
    "randn_like": lambda: torch.randn_like(probabilities(), dtype=torch.float64),
    "randint_like": lambda: torch.randint_like(probabilities(), 9),
    "uniform_": lambda: torch.empty(20).uniform_(2, 3),
    "normal_": lambda: strided().normal_(),
    "bernoulli_": lambda: strided().bernoulli_(0.4),
    "bernoulli_of_tensor": lambda: torch.empty(6, 4).bernoulli_(probabilities()),
    "random_": lambda: torch.empty(20, dtype=torch.int64).random_(50),
    "exponential_": lambda: strided().exponential_(),
    "cauchy_": lambda: torch.empty(20).cauchy_(),
    "log_normal_": lambda: torch.empty(20).log_normal_(),
    "geometric_": lambda: torch.empty(20).geometric_(0.3),
    "new_empty": lambda: probabilities().new_empty(9).normal_(),
    "dropout": lambda: F.dropout(probabilities(), 0.4),
    "dropout_in_place": lambda: F.dropout(probabilities(), 0.4, inplace=True),
    "dropout2d": lambda: F.dropout2d(torch.ones(3, 4, 2, 2)),
    "alpha_dropout": lambda: F.alpha_dropout(probabilities(), 0.4, training=True),
    "rrelu": lambda: F.rrelu(probabilities() - 0.5, training=True),
    "gumbel_softmax": lambda: F.gumbel_softmax(probabilities()),
    "fractional_max_pool2d": lambda: F.fractional_max_pool2d(torch.rand(1, 2, 8, 8), 2, output_size=3),
    "init": lambda: nn.init.trunc_normal_(torch.empty(9, 2)),
    "kaiming": lambda: nn.init.kaiming_uniform_(torch.empty(9, 2)),
    "distribution": lambda: torch.distributions.Normal(probabilities(), 1.0).rsample(),
    "categorical": lambda: torch.distributions.Categorical(probabilities()).sample(),
    "dirichlet": lambda: torch.distributions.Dirichlet(probabilities()).rsample(),
    "gamma": lambda: torch.distributions.Gamma(probabilities(), 1.0).sample(),
    "attention": lambda: F.scaled_dot_product_attention(*torch.rand(3, 2, 4, 8), dropout_p=0.5),
}


def drawn(call: Callable[[], Any], *contexts: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers, and how the host's generator is then."""
    torch.manual_seed(7)
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        found = call()
    return found, torch.default_generator.get_state()


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("name", CALLS)
def test_a_draw_for_another_device_has_the_hosts_numbers(name: str) -> None:
    call, card = CALLS[name], Card(1)
    plain, state = drawn(call)
    assert not torch.equal(drawn(call, Card(1))[0], plain)
    found, after = drawn(call, card, OutsideBlocks(CPU, on_host=True, reseeds=False))
    assert torch.equal(found, plain) and found.dtype == plain.dtype and found.stride() == plain.stride()
    assert torch.equal(after, state) and card.draws == 0


@pytest.mark.usefixtures("cards")
def test_a_draw_with_a_generator_of_the_program_stays_as_it_is() -> None:
    def call() -> torch.Tensor:
        own = torch.Generator().manual_seed(5)
        return torch.randn(9, generator=own) + torch.empty(9).normal_(generator=own)

    plain, state = drawn(call)
    found, after = drawn(call, OutsideBlocks(CPU, on_host=True, reseeds=False))
    assert torch.equal(found, plain) and torch.equal(after, state)


@pytest.mark.usefixtures("cards")
def test_the_fused_dropout_of_a_card_is_that_of_a_processor() -> None:
    """Only cards call it."""
    x = torch.randn(6, 5, requires_grad=True)
    plain, state = drawn(lambda: F.dropout(x, 0.4))
    found, after = drawn(
        lambda: torch.native_dropout(x, 0.4, True)[0], Card(1), OutsideBlocks(CPU, on_host=True, reseeds=False)
    )
    assert torch.equal(found, plain) and torch.equal(after, state)
    (one,), (other,) = (torch.autograd.grad(y.sum(), x) for y in (plain, found))
    assert torch.allclose(one, other, rtol=1e-6, atol=0)


def test_numbers_go_to_the_device_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_draws, "draws_otherwise", lambda device: device.type == "meta")
    there = torch.empty(4, 5, device="meta")
    calls: list[tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]] = [
        (lambda: torch.rand(9, device="meta"), lambda: torch.rand(9)),
        (lambda: torch.randn_like(there), lambda: torch.randn(4, 5)),
        (lambda: torch.rand_like(torch.empty(4), device="meta"), lambda: torch.rand(4)),
        (lambda: there.uniform_(), lambda: torch.empty(4, 5).uniform_()),
        (lambda: torch.native_dropout(there, 0.5, True)[0], lambda: torch.empty(4, 5).bernoulli_(0.5)),
    ]
    for call, like in calls:
        _, state = drawn(like)
        found, after = drawn(call, OutsideBlocks(torch.device("meta"), on_host=True, reseeds=False))
        assert found.device.type == "meta" and torch.equal(after, state)
    assert drawn(lambda: there.normal_(), OutsideBlocks(CPU, on_host=True, reseeds=False))[0] is there


def modes() -> int:
    return int(torch._C._len_torch_function_stack())


@pytest.mark.parametrize("program_has_one", [False, True])
def test_a_block_computes_outside_the_context(program_has_one: bool) -> None:
    outside = OutsideBlocks(CPU, on_host=True, reseeds=False)
    before = modes()
    with outside, torch.device("cpu") if program_has_one else contextlib.nullcontext():
        within = modes()
        with pytest.raises(KeyError), outside.left():
            assert modes() == (within if program_has_one else before)
            raise KeyError
        assert modes() == within and not outside._in_block
    assert modes() == before


@pytest.mark.usefixtures("cards")
def test_what_the_program_compiles_outside_its_blocks_stays_one_graph() -> None:
    head = torch.compile(lambda x: torch.tanh(F.dropout(x, 0.5)), backend="eager", fullgraph=True)
    with OutsideBlocks(CPU, on_host=True, reseeds=True):
        assert head(torch.ones(4)).shape == (4,)


class _Noising(nn.Module):
    """Draws before its blocks, between them and behind them, in a checkpoint too."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(1, 6)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = len(x)
        x = F.dropout(x, 0.2) + self.time(torch.rand(rows, 1, device=x.device))
        x = checkpoint(self._mixed, x, use_reentrant=False)
        for block in self.blocks:
            x = block(x)
            x = x + torch.empty(rows, 6, device=x.device).uniform_(-0.1, 0.1)
        return F.dropout(x, 0.2)

    @staticmethod
    def _mixed(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(F.dropout(x, 0.3)) * torch.rand_like(x)


def _denoise(model: Any, batch: Any) -> torch.Tensor:
    noise = torch.randn_like(batch[0])  # each stage draws it: one as the input, and one as the target
    masked = torch.rand(len(noise), 1, device=noise.device) < 0.7
    return F.mse_loss(model(batch[0] + noise * masked), noise)


class _OnUnequalCards(Bench):
    def whole(self) -> Any:
        with Card(0):
            return super().whole()

    def serve(self, message: Any) -> Any:
        with Card(1 + message["stage"]):
            return super().serve(message)


@pytest.mark.usefixtures("cards")
def test_stages_on_unequal_cards_draw_what_the_whole_model_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_stages.Bench", _OnUnequalCards)
    check_every_cut(lambda: (_Noising(), _labelled(6), _denoise))


@pytest.mark.usefixtures("cards")
def test_a_card_and_a_processor_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _OnUnequalCards(lambda: (_Noising(), _labelled(6), _denoise))
    loss, values = bench.whole()
    monkeypatch.setattr(stage_forward, "draws_otherwise", lambda device: False)
    plain_loss, plain = Bench.whole(bench)
    assert loss == plain_loss and all(torch.equal(one, other) for one, other in zip(values, plain))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_and_a_processor_draw_the_same() -> None:
    on_gpu = check_every_cut(lambda: (_Noising(), _labelled(6), _denoise), exact=False, device=torch.device("cuda"))
    plain = Bench(lambda: (_Noising(), _labelled(6), _denoise))
    assert on_gpu.whole()[0] == pytest.approx(plain.whole()[0], rel=1e-5)


class _Repeating(nn.Module):
    """Draws between its blocks what a checkpoint draws once more in the backward pass."""

    def __init__(self, checkpoints: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self._checkpoints = checkpoints

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = len(x)
        for block in self.blocks:
            x = checkpoint(self._mixed, x, rows, use_reentrant=False) if self._checkpoints else self._mixed(x, rows)
            x = block(x)
        return x

    @staticmethod
    def _mixed(x: torch.Tensor, rows: int) -> torch.Tensor:
        return torch.tanh(F.dropout(x, 0.3)) * torch.rand(rows, 6)


def test_a_checkpoint_between_two_blocks_draws_again_what_it_has_drawn() -> None:
    plain, repeating = (
        check_every_cut(lambda checkpoints=checkpoints: (_Repeating(checkpoints), _labelled(6), _denoise))
        for checkpoints in (False, True)
    )
    assert plain.cuts.seams.draws_between and repeating.cuts.seams.draws_between
    (loss, values), (repeated_loss, repeated) = plain.whole(), repeating.whole()
    assert loss == repeated_loss and all(torch.equal(one, other) for one, other in zip(values, repeated))
