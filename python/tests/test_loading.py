"""Batches as they are leased: the same samples for every reader, and what is read ahead."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member
from scripts import HEAD

from paceline.channel import Channel
from paceline.errors import PacelineError
from paceline.loading import AheadLoader, DirectLoader, Load, Loads, make_loader
from paceline.moving import to_device
from paceline.streams import Shards, Stream


class Noisy(torch.utils.data.Dataset):
    """Augmented by everything that draws; and each read leaves a line in a file."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        import numpy

        with open(self.log, "a") as log:
            log.write(f"{index} {os.getpid()}\n")
        if index == 66:
            raise ValueError("sample 66")
        return torch.tensor([index, random.random(), float(torch.rand(())), float(numpy.random.rand())])

    def reads(self) -> list[int]:
        return [int(line.split()[0]) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def pids(self) -> set[int]:
        return {int(line.split()[1]) for line in self.log.read_text().splitlines()}


@pytest.fixture
def noisy(tmp_path: Path) -> Noisy:
    return Noisy(tmp_path / "reads.txt")


@pytest.fixture
def ahead(noisy: Noisy) -> Iterator[AheadLoader]:
    loader = AheadLoader(Loads(noisy, None), {"num_workers": 2, "prefetch_factor": 2})
    yield loader
    loader.close()


def load(*samples: int, seed: int = 5) -> Load:
    return Load(samples, seed)


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_death_of_a_loader_process_shows_while_no_message_comes(noisy: Noisy, ahead: AheadLoader) -> None:
    ahead.get(load(1))
    ours, theirs = socket.socketpair()
    channel = Channel(ours.detach())
    deadline = time.monotonic() + 60

    def look() -> None:
        ahead.check()
        assert time.monotonic() < deadline

    channel.while_waiting = look
    # The program has a handler of its own, so nothing interrupts it.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with theirs:
        try:
            [pid] = noisy.pids()
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(PacelineError, match=f"the loader process {pid} of this program was killed"):
                channel.read()
        finally:
            signal.signal(signal.SIGCHLD, before)
            channel.close()


class _Large(torch.utils.data.Dataset):
    """Each sample is more than the pipe from a loader process has room for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> bytes:
        (self._folder / "pid").write_text(str(os.getpid()))
        if index == 7:
            time.sleep(100)
        return b"x" * (8 << 20)


def _takes_every_status(number: int, frame: Any) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, _takes_every_status])
@pytest.mark.parametrize("sample", [1, 7], ids=["half sent", "not ready"])
def test_the_death_of_a_loader_process_shows_while_its_batch_is_waited_for(
    tmp_path: Path, handler: Any, sample: int
) -> None:
    def too_late(number: int, frame: Any) -> None:
        raise KeyboardInterrupt  # nothing takes it for an error of the loader

    one = AheadLoader(Loads(_Large(tmp_path), list), {"num_workers": 2})
    before = signal.signal(signal.SIGCHLD, handler)
    alarm = signal.signal(signal.SIGALRM, too_late)
    try:
        one.expect([load(sample)])
        until((tmp_path / "pid").exists)
        time.sleep(0.5)  # the pipe is full by then
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        signal.alarm(15)
        with pytest.raises(PacelineError, match=f"the loader process {pid} of this program (has died|was killed)"):
            one.get(load(sample))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGCHLD, before)
        pids = [process.pid for process in one._batches._workers]
        one.close()
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))


class _Decoded(torch.utils.data.Dataset):
    """A sample is how often the kernel had to clear a page while four blocks of 6 MB were filled."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [b"x" * (6 << 20) for _ in range(4)]
        blocks.clear()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(os.confstr("CS_GNU_LIBC_VERSION") is None, reason="another C library than glibc")
def test_a_loader_process_uses_memory_again_that_a_sample_has_freed() -> None:
    loader = make_loader(_Decoded(), None, {"num_workers": 1, "multiprocessing_context": "spawn"})
    loader.expect([load(*range(20))])
    faults = loader.get(load(*range(20)))
    loader.close()
    assert faults[0] > 4 * 1000
    assert sum(faults[10:]) < 1000, faults


def test_a_sample_is_the_same_for_every_reader(noisy: Noisy, ahead: AheadLoader) -> None:
    direct = DirectLoader(Loads(noisy, None))
    torch.manual_seed(1)
    alone = direct.get(load(7))
    torch.manual_seed(2)
    random.seed(2)
    together = direct.get(load(3, 7))
    assert torch.equal(alone[0], together[1])
    assert torch.equal(ahead.get(load(7, 3)), together.flip(0))
    assert os.getpid() in noisy.pids() and len(noisy.pids()) == 2
    assert not torch.equal(direct.get(load(7, seed=6)), alone)
    assert not torch.equal(direct.get(load(8))[0, 1:], alone[0, 1:])


def test_what_is_expected_is_read_ahead(noisy: Noisy, ahead: AheadLoader) -> None:
    expected = [load(n, n + 1) for n in range(0, 20, 2)]
    ahead.expect(expected)
    until(lambda: len(noisy.reads()) == 8)  # four batches, as many as are wanted ahead
    time.sleep(0.1)
    assert sorted(noisy.reads()) == [*range(8)]
    assert ahead.get(expected[0])[:, 0].tolist() == [0, 1]
    until(lambda: len(noisy.reads()) == 10)
    for batch in expected[1:]:
        assert ahead.get(batch)[:, 0].tolist() == list(batch.samples)
    assert sorted(noisy.reads()) == [*range(20)]  # each once


def test_another_batch_than_the_next_one(noisy: Noisy, ahead: AheadLoader) -> None:
    expected = [load(n) for n in range(4)]
    ahead.expect(expected)
    assert ahead.get(load(50))[:, 0].tolist() == [50]  # comes in between
    assert ahead.get(expected[2])[:, 0].tolist() == [2]  # out of order
    assert ahead.get(expected[0])[:, 0].tolist() == [0]
    assert sorted(noisy.reads()) == [0, 1, 2, 3, 50]


def test_what_is_expected_no_more_is_dropped(noisy: Noisy, ahead: AheadLoader) -> None:
    ahead.expect([load(n) for n in range(20)])
    until(lambda: len(noisy.reads()) == 4)
    ahead.expect([load(n) for n in range(30, 34)])
    for n in range(30, 34):
        assert ahead.get(load(n))[:, 0].tolist() == [n]
    assert sorted(noisy.reads()) == [0, 1, 2, 3, *range(30, 34)]
    assert not ahead._ready and not ahead._feed.under_way and not ahead._feed.waiting


def test_other_augmentation_is_another_batch(ahead: AheadLoader) -> None:
    ahead.expect([load(1, seed=1)])
    assert not torch.equal(ahead.get(load(1, seed=2)), ahead.get(load(1, seed=1)))


def test_a_failure_counts_when_its_batch_comes(noisy: Noisy, ahead: AheadLoader) -> None:
    ahead.expect([load(1), load(66), load(2)])
    assert ahead.get(load(1))[0, 0] == 1
    ahead.expect([load(2)])
    assert ahead.get(load(2))[0, 0] == 2
    with pytest.raises(ValueError, match="sample 66"):
        ahead.get(load(66))


def test_the_order_of_steps_and_expectations(tmp_path: Path) -> None:
    body = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = paceline.join(model, Points(), num_workers=2, prefetch_factor=1, worker_init_fn=lambda n: print("loader", n))
for x, y in job:
    print("batch", list(job.samples), torch.equal(x, Points().x[list(job.samples)]))
    loss_of(model, x, y).backward()
    job.step(0.0)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        batches = [[4 * n + i for i in range(4)] for n in range(6)]

        def expect(*numbers: int) -> None:
            each = [{"samples": batches[n], "epoch": 0, "augment_seed": 9} for n in numbers]
            member.send({"type": "expect", "batches": each})

        expect(0, 1)
        member.step(batches[0])
        expect(1, 2)
        member.step(batches[3])  # given back by another worker
        member.step(batches[1], micro_batch=2)
        expect(4, 5)
        member.step(batches[4], micro_batch=2)
        assert member.end() == 0, member.log
        assert "loader 0" in member.log and "loader 1" in member.log
        seen = [line for line in member.log.splitlines() if line.startswith("batch")]
        wanted = [batches[0], batches[3], batches[1][:2], batches[1][2:], batches[4][:2], batches[4][2:]]
        assert seen == [f"batch {samples} True" for samples in wanted]


def test_what_was_read_ahead_is_not_read_again(tmp_path: Path) -> None:
    body = """
class Said(Points):
    def __getitem__(self, index):
        with open("reads.txt", "a") as reads:
            reads.write(f"{index}\\n")
        return super().__getitem__(index)
model = Net()
job = paceline.join(model, Said(), num_workers=1, prefetch_factor=3)
for x, y in job:
    loss_of(model, x, y).backward()
    job.step(0.0)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        batches = [[0, 1], [2, 3], [4, 5]]
        each = [{"samples": batch, "epoch": 0, "augment_seed": 9} for batch in batches]
        member.send({"type": "expect", "batches": each})
        for batch in batches:
            member.step(batch)
        assert member.end() == 0, member.log
    assert sorted(map(int, (tmp_path / "reads.txt").read_text().split())) == [*range(6)]


SPAWNED = """
    model = Net()
    job = paceline.join(model, Points(), num_workers=1, multiprocessing_context={method!r})
    for x, y in job:
        print("batch", list(job.samples), torch.equal(x, Points().x[list(job.samples)]))
        job.step(0.0)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_loader_processes_that_import_the_program(tmp_path: Path, method: str) -> None:
    guarded = 'if __name__ == "__main__":' + SPAWNED.format(method=method)
    with Member(tmp_path, HEAD + guarded) as member:
        member.begin()
        member.step([3, 1])
        assert member.end() == 0, member.log
        assert "batch [3, 1] True" in member.log


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_loader_processes_that_would_join(tmp_path: Path, method: str) -> None:
    with Member(tmp_path, HEAD + textwrap.dedent(SPAWNED.format(method=method))) as member:
        member.begin()
        member.order([3, 1])
        assert '`if __name__ == "__main__":`' in member.receive("error")["text"]
        assert "join() was called in a process that the program started" in member.log


def test_a_default_of_python_s_does_not_count(monkeypatch: pytest.MonkeyPatch, noisy: Noisy) -> None:
    asked = []

    def data_loader(*_: Any, **options: Any) -> list[Any]:
        asked.append(options.get("multiprocessing_context"))
        return []

    monkeypatch.setattr("paceline.loading.DataLoader", data_loader)
    monkeypatch.setattr("paceline.loading.LoaderDeaths", lambda batches: None)
    for method in (None, "fork", "forkserver", "spawn"):
        monkeypatch.setattr("multiprocessing.get_start_method", lambda allow_none, method=method: method)
        AheadLoader(Loads(noisy, None), {"num_workers": 1})
    AheadLoader(Loads(noisy, None), {"num_workers": 1, "multiprocessing_context": "forkserver"})
    assert asked == ["fork", "fork", "fork", None, "forkserver"]


def test_dropout_follows_the_steps_seed(tmp_path: Path) -> None:
    body = """
import numpy
model = Net()
job = paceline.join(model, Points(), num_workers=int(sys.argv[1]))
for x, y in job:
    print("drew", torch.rand(()).item(), random.random(), numpy.random.rand())
    loss_of(model, x, y).backward()
    job.step(0.0)
"""
    drawn = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Member(folder, HEAD + body, arguments=[str(number)]) as member:
            member.begin()
            member.step([1, 2], seed=2**64 - 1)
            member.step([3, 4], seed=8)
            member.step([5, 6], seed=8)
            member.step([1, 2, 3, 4], seed=9, micro_batch=2)
            member.end()
            drawn.append([line for line in member.log.splitlines() if line.startswith("drew")])
    assert drawn[0] == drawn[1] and drawn[0][1] == drawn[0][2] and drawn[0][0] != drawn[0][1]
    assert drawn[0][3] != drawn[0][4], "parts of a batch draw alike"


def test_a_collate_function_of_ones_own(tmp_path: Path) -> None:
    body = """
def collate(samples):
    return {"x": torch.stack([x for x, _ in samples]), "n": len(samples)}
model = Net()
job = paceline.join(model, Points(), num_workers=int(sys.argv[1]), collate_fn=collate, pin_memory=False,
                    persistent_workers=sys.argv[1] != "0")
for batch in job:
    print(batch["n"], tuple(batch["x"].shape))
    job.step(0.0)
"""
    for number in ("0", "1"):
        with Member(tmp_path, HEAD + body, arguments=[number]) as member:
            member.begin()
            member.step([1, 2, 3])
            assert member.end() == 0
            assert "3 (3, 6)" in member.log


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_loader_process_finds_the_training_set(tmp_path: Path, method: str) -> None:
    body = f"""
class Files(Points):
    folder = "somewhere"
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x * self.factor, y
def init(number):
    found = torch.utils.data.get_worker_info().dataset
    print("found", found.folder, len(found), found.y[3].item() == Points().y[3].item(), hasattr(found, "nothing"))
    found.factor = 2.0
if __name__ == "__main__":
    model = Net()
    job = paceline.join(model, Files(), num_workers=1, worker_init_fn=init, multiprocessing_context={method!r})
    for x, y in job:
        print("doubled", torch.equal(x, 2 * Points().x[list(job.samples)]))
        job.step(0.0)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step([3, 1])
        assert member.end() == 0, member.log
        assert "found somewhere 64 True False" in member.log and "doubled True" in member.log


def test_batches_are_moved() -> None:
    from typing import NamedTuple

    class Pair(NamedTuple):
        a: Any
        b: Any

    device = torch.device("meta")
    batch = {"t": torch.ones(1), "l": [torch.ones(1), "x"], "p": Pair(torch.ones(1), (torch.ones(1), 3))}
    moved = to_device(batch, device)
    assert moved["t"].device == moved["l"][0].device == moved["p"].a.device == moved["p"].b[0].device == device
    assert moved["l"][1] == "x" and moved["p"].b[1] == 3 and isinstance(moved["p"], Pair)


@pytest.mark.parametrize("draws", [True, False])
def test_a_record_of_a_stream_has_a_seed_of_its_own_if_its_map_draws(draws: bool) -> None:
    def numbers() -> list[float]:
        stream = Stream(Shards(["all"], lambda name: range(20)), map=lambda record: random.random(), draws=draws)
        loads = make_loader(stream, None, {}, seed=1)
        random.seed(5)
        return [float(one) for begin in (0, 8) for one in loads.get(load(*range(begin, begin + 8))).batch]

    first, again = numbers(), numbers()
    assert first == again
    random.seed(5)
    assert (first == [random.random() for _ in range(16)]) == (not draws)
