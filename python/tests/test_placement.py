"""Which device has which part of a model, and which card's memory counts for it."""

from __future__ import annotations

import os
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from paceline import PacelineError, card_memory, device_memory, devices, enlisting
from paceline.integrations import home
from paceline.inventory import PARAMETER, take_inventory
from paceline.session import Session
from paceline.wishes import Wishes

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("role", "stages", "named", "stays"),
    [
        ("worker", True, None, True),
        ("worker", True, "cuda:1", True),
        ("evaluator", True, None, True),
        ("evaluator", True, "cuda:1", False),  # evaluate.device
        ("worker", False, None, False),
        ("evaluator", False, None, False),
    ],
)
def test_a_trainer_leaves_a_model_at_home_in_a_job_with_stages(
    monkeypatch: pytest.MonkeyPatch, role: str, stages: bool, named: str | None, stays: bool
) -> None:
    channel: Any = None
    monkeypatch.setattr(home, "session", lambda: Session(channel, role, "w0", 2, 1, stages=stages))
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    if named is not None:
        monkeypatch.setenv("PACELINE_DEVICE", named)
    assert home.in_stages() == stays
    assert home.home_in_stages(nn.Linear(2, 2)) == (CPU if stays else None)


class OnGpus:
    """A model, as far as it is asked where it is."""

    def __init__(self, *numbers: int) -> None:
        self._places = [SimpleNamespace(device=torch.device("cuda", number)) for number in numbers]

    def parameters(self) -> list[Any]:
        return self._places


@pytest.mark.parametrize(
    ("model", "on_host", "gpus", "named", "own"),
    [
        (OnGpus(0, 0), 0, 4, "", None),
        (OnGpus(0, 0), 2, 4, "", 2),  # model.cuda()
        (OnGpus(0, 0), 5, 4, "", 1),
        (OnGpus(0, 0), 2, 1, "", None),  # each process sees one
        (OnGpus(0, 0), 2, 4, "cuda:0", None),
        (OnGpus(3, 3), 2, 4, "", None),  # the program's own choice
        (OnGpus(0, 1), 2, 4, "", None),
        (nn.Linear(2, 2), 2, 4, "", None),
    ],
)
def test_workers_do_not_share_the_first_gpu_by_mistake(
    monkeypatch: pytest.MonkeyPatch, model: Any, on_host: int, gpus: int, named: str, own: int | None
) -> None:
    channel: Any = None
    here = Session(channel, "worker", "w0", 8, 1, on_host=on_host)
    monkeypatch.setattr(devices, "session", lambda: here)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("PACELINE_DEVICE", named)
    if own is None:
        enlisting._check_gpu(here, model)
        return
    with pytest.raises(
        PacelineError, match=rf"this worker's GPU is cuda:{own}; build the model on paceline.device\(\)"
    ):
        enlisting._check_gpu(here, model)
    here.role = "evaluator"
    enlisting._check_gpu(here, model)


def test_the_search_for_cuts_may_use_the_device_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(enlisting, "find_cuts", lambda *arguments: given.append(arguments[-1]))
    model, data = nn.Linear(2, 2), torch.utils.data.TensorDataset(torch.ones(4, 2))
    wishes = Wishes(loss=lambda model, batch: model(batch[0]).sum(), device=torch.device("cpu", 0))
    enlisting._cuts_of(model, data, take_inventory(model, of_stages=True), 4, wishes)
    assert given == [torch.device("cpu", 0)]


@pytest.mark.parametrize(
    ("device", "named", "visible", "each"),
    [
        ("cuda:0", None, 2, [5, 7]),
        ("cuda", None, 2, [5, 7]),
        ("cuda:1", None, 2, [7]),  # the program names it
        ("cuda:1", "cuda:1", 2, [7]),
        ("cuda:0", None, 1, [5, 7]),  # a framework sees one card of two
        ("cpu", None, 2, []),
    ],
)
def test_workers_take_the_cards_in_turn_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, device: str, named: str | None, visible: int, each: list[int]
) -> None:
    monkeypatch.setattr(card_memory, "free_memory", lambda library, environment: [5, 7])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    if named is not None:
        monkeypatch.setenv("PACELINE_DEVICE", named)
    assert card_memory.free_memory_in_turn(torch.device(device)) == each


def test_what_this_process_holds_on_a_card_is_free_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_memory, "free_memory", lambda library, environment: [5, 7])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda card: [100, 0][card])
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    assert card_memory.free_memory_in_turn(torch.device("cuda:0")) == [105, 7]


def test_the_driver_is_asked_of_the_cards_that_the_process_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def asked(library: str, environment: dict[str, str]) -> list[int]:
        seen.append(environment.get("CUDA_VISIBLE_DEVICES"))
        return []

    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(card_memory, "free_memory", asked)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")  # a framework hides the others
    card_memory.free_memory_in_turn(torch.device("cuda:0"))
    assert seen == [before]


@pytest.mark.parametrize(("free", "said"), [(7, 7), (0, 1)])  # 0 would mean that nobody knows
def test_a_worker_asks_about_its_own_card_alone(monkeypatch: pytest.MonkeyPatch, free: int, said: int) -> None:
    class Driver:
        def uuid_of(self, card: int) -> str:
            return f"GPU-{card}"

    def asked(library: str, environment: dict[str, str], only: str = "") -> list[tuple[str, int]]:
        return [(only, free)]

    monkeypatch.setattr(card_memory, "cards_of", asked)
    monkeypatch.setattr(device_memory, "driver", Driver)
    monkeypatch.setattr(device_memory, "card_of", lambda device: 3)
    monkeypatch.setenv(device_memory.VARIABLE, "libcuda.so.1")
    assert card_memory.own_card_memory(CPU) == {"card": "GPU-3", "free": said}


class ThreeCards:
    """A driver. Each card has a number of bytes free; 0: too few for a context."""

    def __init__(self, free: list[int], error: int = 2) -> None:
        self.free = free
        self.error = error
        self.opened: list[int] = []

    def cuInit(self, flags: Any) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 3
        return 0

    def cuDeviceGetUuid_v2(self, number: Any, card: Any) -> int:
        number[15] = card.value
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, card: Any) -> int:
        self.opened.append(card.value)
        return 0 if self.free[card.value] else self.error

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value = self.free[self.opened[-1]]
        return 0


@pytest.mark.parametrize(("only", "opened"), [("", [0, 1, 2]), (f"GPU-{uuid.UUID(int=1)}", [1])])
@pytest.mark.parametrize("free", [[100, 101, 102], [100, 0, 102]])
def test_only_the_cards_that_are_asked_about_are_opened_and_a_full_one_is_full(
    monkeypatch: pytest.MonkeyPatch, only: str, opened: list[int], free: list[int]
) -> None:
    driver = ThreeCards(free)
    monkeypatch.setattr(card_memory.ctypes, "CDLL", lambda library: driver)
    assert card_memory._ask("", only) == [(f"GPU-{uuid.UUID(int=card)}", free[card]) for card in opened]
    assert driver.opened == opened


def test_a_card_that_gives_no_context_for_another_reason_has_no_known_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_memory.ctypes, "CDLL", lambda library: ThreeCards([100, 0, 102], error=46))
    with pytest.raises(SystemExit, match="cuDevicePrimaryCtxRetain: 46"):
        card_memory._ask("", "")


@pytest.mark.parametrize(
    ("places", "kind"), [(("cuda:0", "cuda:0"), "DeviceBinding"), (("cuda:0", "cuda:1"), "HostBinding")]
)
def test_a_model_that_the_program_has_spread_over_cards_stays_where_it_is(
    monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...], kind: str
) -> None:
    made: list[str] = []
    for one in ("DeviceBinding", "HostBinding"):
        monkeypatch.setattr(enlisting, one, lambda *_, one=one, **__: made.append(one))
    monkeypatch.setattr(enlisting, "BindingByMemory", lambda memories, of_files, resident: of_files())
    entries = [SimpleNamespace(kind=PARAMETER, tensor=SimpleNamespace(device=torch.device(at))) for at in places]
    unused: Any = None
    session = Session(unused, "worker", "w0", 1, 1)
    inventory: Any = SimpleNamespace(entries=entries)
    enlisting._make_binding(session, inventory, unused, torch.device("cuda:0"), Wishes())
    assert made == [kind]
    if kind == "HostBinding":
        with pytest.raises(PacelineError, match="has put this one on several; leave processes= out"):
            enlisting._make_team(session, inventory, unused, torch.device("cuda:0"), Wishes(processes=2))


@pytest.mark.parametrize(("device", "current"), [("cuda:1", ["cuda:1"]), ("cpu", [])])
def test_the_gpu_of_a_process_is_its_current_one_before_anything_else_is_made(
    monkeypatch: pytest.MonkeyPatch, device: str, current: list[str]
) -> None:
    class Reached(Exception):
        pass

    def take_inventory(*_: Any) -> None:
        raise Reached

    seen: list[str] = []
    monkeypatch.setattr(enlisting, "_prepare_process", lambda: None)
    monkeypatch.setattr(enlisting, "_place", lambda *_: torch.device(device))
    monkeypatch.setattr(enlisting, "take_inventory", take_inventory)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: seen.append(str(device)))
    channel: Any = None
    with pytest.raises(Reached):
        enlisting.enlist(Session(channel, "worker", "w0", 2, 1), nn.Linear(2, 2), [1, 2, 3], Wishes())
    assert seen == current
