"""Readers that the workers of a host share: each record comes once, and nobody needs a reader to live."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.streams import FileShards, Shards, Stream
from paceline.streams.host_source import HostSource, _connected
from paceline.streams.lease_guess import LeaseGuess


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for shard in range(4):
        (tmp_path / "data" / f"{shard}.txt").write_text("".join(f"{shard}.{line}\n" for line in range(50)))
    return tmp_path


def source_of(files: Path) -> FileShards:
    def read(path: str) -> Iterable[str]:
        with open(files / "opened", "a") as opened:
            print(os.getpid(), file=opened)
        with open(path) as lines:
            for line in lines:
                if line.strip() == "damaged":
                    raise ValueError(f"{path} is damaged")
                yield line.strip()

    return FileShards(files / "data", read)


def shared(files: Path, readers: int = 2) -> HostSource:
    return HostSource(source_of(files), f"{os.getpid()}-{files.name}", readers)


def opened_by(files: Path) -> list[int]:
    return [int(line) for line in (files / "opened").read_text().split()]


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raises instead of waiting for ever."""

    def over(number: int, frame: object) -> None:
        raise AssertionError(
            f"not done within {seconds} s"
        )  # no OSError: the source would take it for a reader's death

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_each_file_is_opened_once_for_all_and_not_in_their_processes(files: Path) -> None:
    first, second = shared(files), shared(files)
    for shard in range(4):
        assert first.read(shard, [3, 7]) == [f"{shard}.3", f"{shard}.7"]
        assert second.read(shard, [1, 2, 49]) == [f"{shard}.1", f"{shard}.2", f"{shard}.49"]
        assert second.up_to(shard, 10) == 10
        assert first.up_to(shard, 1000) == 50
    pids = opened_by(files)
    assert len(pids) == 4
    assert len(set(pids)) == 2
    assert os.getpid() not in pids


def test_readers_wait_for_the_first_question_as_long_as_a_worker_lives(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.streams.host_source._IDLE_SECONDS", 0.1)
    source = shared(files)
    time.sleep(1)
    for shard in range(4):
        assert source.read(shard, [3]) == [f"{shard}.3"]
    assert os.getpid() not in opened_by(files)


def test_who_finds_no_room_at_a_reader_waits_for_it(tmp_path: Path) -> None:
    address = str(tmp_path / "reader")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen(0)
        listener.settimeout(20)
        before = []
        while True:  # fills the queue
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.setblocking(False)
            try:
                one.connect(address)
            except BlockingIOError:
                one.close()
                break
            before.append(one)

        def take_all() -> None:
            time.sleep(0.5)
            with contextlib.suppress(TimeoutError):
                for _ in range(len(before) + 1):
                    listener.accept()[0].close()

        reader = threading.Thread(target=take_all)
        reader.start()
        connection = _connected(address)
        reader.join()
        assert connection is not None
        for one in [connection, *before]:
            one.close()


def test_who_loses_a_reader_reads_its_shards_alone(files: Path) -> None:
    source = shared(files)
    for shard in range(4):
        source.read(shard, [0])
    for pid in set(opened_by(files)):
        os.kill(pid, signal.SIGKILL)
    for shard in range(4):
        assert source.read(shard, [5, 6]) == [f"{shard}.5", f"{shard}.6"]
    assert opened_by(files)[4:] == [os.getpid()] * 4


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with a fork that lives on"])
def test_a_reader_that_dies_with_a_question_in_hand_is_not_waited_for(files: Path, forks: bool) -> None:
    here = os.getpid()

    def read(path: str) -> Iterable[str]:
        if os.getpid() != here:
            if forks and (child := os.fork()) == 0:
                time.sleep(100)
                os._exit(0)
            (files / "forked").write_text(str(child) if forks else "")
            os.kill(os.getpid(), signal.SIGKILL)
        with open(path) as lines:
            yield from map(str.strip, lines)

    source = HostSource(FileShards(files / "data", read), f"dies-{files.name}", 1)
    try:
        with limit(60):
            assert source.read(0, [1, 2]) == ["0.1", "0.2"]
            assert source.read_many({1: [5], 2: [6]}) == {}
            again = HostSource(FileShards(files / "data", read), f"dies-{files.name}", 1)
            assert again.read(1, [5]) == ["1.5"]
    finally:
        if forked := (files / "forked").read_text():
            os.kill(int(forked), signal.SIGKILL)


def test_an_asker_that_stands_still_does_not_keep_others_waiting(files: Path) -> None:
    large = Shards(["all"], lambda name: (bytes([number]) * 1_000_000 for number in range(8)))
    name = f"still-{files.name}"
    first, second = HostSource(large, name, 1), HostSource(large, name, 1)
    assert first.read(0, [0]) == [bytes(1_000_000)]
    still = _connected(first._addresses[0])
    assert still is not None
    still.sendall(json.dumps({"read": [[0, list(range(8))]]}).encode() + b"\n")
    with limit(60):
        for number in range(8):
            assert second.read(0, [number]) == [bytes([number]) * 1_000_000]
    still.close()


def test_an_answer_that_was_not_taken_is_not_given_to_the_next_question(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = shared(files)
    loads = pickle.loads

    def interrupted(data: bytes) -> object:
        monkeypatch.setattr(pickle, "loads", loads)
        raise KeyboardInterrupt

    monkeypatch.setattr(pickle, "loads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        source.read_many({0: [1], 1: [2]})
    for shard in range(4):
        for record in (3, 4):
            found = source.read_many({shard: [record]}).get(shard) or source.read(shard, [record])
            assert found == [f"{shard}.{record}"]


@pytest.mark.parametrize("step", ["_send", "_receive"])
@pytest.mark.parametrize("ask", ["read", "read_many"])
def test_a_question_that_was_interrupted_gives_no_answer_to_the_next_one(
    files: Path, monkeypatch: pytest.MonkeyPatch, step: str, ask: str
) -> None:
    source = shared(files)
    own = getattr(HostSource, step)

    def interrupted(*given: object) -> object:
        monkeypatch.setattr(HostSource, step, own)
        if step == "_send":
            own(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(HostSource, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        source.read(1, [1]) if ask == "read" else source.read_many({1: [1]})
    for record in (3, 4):
        assert source.read(1, [record]) == [f"1.{record}"]


def test_what_is_wrong_with_the_data_shows_where_they_are_used(files: Path) -> None:
    (files / "data" / "2.txt").write_text("2.0\ndamaged\n")
    source = shared(files)
    with pytest.raises(ValueError, match="2.txt is damaged"):
        source.up_to(2, 10)
    with pytest.raises(PacelineError, match="1.txt has 50 records now, and had 61; leave shards unchanged"):
        source.read(1, [60])
    assert source.read(1, [4]) == ["1.4"]


def test_a_fork_has_a_connection_of_its_own(files: Path) -> None:
    source = shared(files, readers=1)
    source.read(0, [0])
    child = os.fork()
    if child == 0:
        good = all(source.read(0, [record]) == [f"0.{record}"] for record in range(50))
        os._exit(0 if good else 1)
    assert all(source.read(0, [record]) == [f"0.{record}"] for record in range(50))
    assert os.waitpid(child, 0)[1] == 0


def wait_for_the_end_of(pids: set[int]) -> None:
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_readers_end_when_nobody_needs_them(files: Path) -> None:
    source = shared(files)
    source.read(0, [0])
    source.read(1, [0])
    pids = set(opened_by(files))
    del source
    wait_for_the_end_of(pids)


def test_readers_do_not_wait_for_forks_of_who_asked(files: Path) -> None:
    source = shared(files, readers=1)
    source.read(0, [0])
    fork = os.fork()
    if fork == 0:
        time.sleep(100)
        os._exit(0)
    try:
        pids = set(opened_by(files))
        del source
        wait_for_the_end_of(pids)
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


def test_another_users_answers_are_not_taken(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    source = shared(files)
    assert source.read(0, [1]) == ["0.1"]
    assert opened_by(files) == [os.getpid()]


def test_a_reader_says_nothing_where_the_program_writes(files: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from paceline.streams import FileShards
from paceline.streams.host_source import HostSource, _connected

def read(path):
    print("in the reader")
    print("also there", file=sys.stderr)
    yield from open(path)

source = HostSource(FileShards({str(files / "data")!r}, read), f"{{os.getpid()}}", 1)
print(source.read(0, [0]))
"""
    import sys

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['0.0\\n']\n", "")


def test_a_reader_reads_as_much_again_as_it_was_asked_for(files: Path) -> None:
    def read(path: str) -> Iterable[str]:
        with open(path) as lines:
            for line in lines:
                with open(f"{path}.read", "a") as seen:
                    seen.write(line)
                yield line.strip()

    source = HostSource(FileShards([files / "data" / "2.txt"], read), f"ahead-{files.name}", 1)
    seen = files / "data" / "2.txt.read"

    def expect(records: int) -> None:
        until = time.monotonic() + 60
        while len(seen.read_text().splitlines()) < records and time.monotonic() < until:
            time.sleep(0.01)
        assert len(seen.read_text().splitlines()) == records

    assert source.up_to(0, 10) == 10
    expect(20)
    assert source.read(0, [3, 7]) == ["2.3", "2.7"]
    expect(20)
    assert source.up_to(0, 22) == 22
    expect(22 + 12)
    assert source.up_to(0, 50) == 50
    assert source.read(0, range(50)) == [f"2.{line}" for line in range(50)]
    expect(50)


def test_a_generator_that_raises_has_not_ended(files: Path) -> None:
    """Each asker gets the exception, also the second one, and none takes it for the end of the shard."""
    with open(files / "data" / "1.txt", "a") as more:
        more.write("damaged\n1.51\n")
    source = source_of(files)
    for _ in range(3):
        with pytest.raises(ValueError, match="1.txt is damaged"):
            source.up_to(1, 1000)
    assert source.up_to(1, 50) == 50


def test_leases_in_equal_steps_come_with_few_messages_and_others_as_they_are(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict] = []
    send = HostSource._send
    monkeypatch.setattr(HostSource, "_send", lambda self, *given: sent.append(given[1]) or send(self, *given))
    stream = Stream(shared(files), shuffle=96, interleave=4, stride=4)
    plain = Stream(source_of(files), shuffle=96, interleave=4, stride=4)
    plain.records(0, 0, 200)
    seen = []
    for begin in range(0, 192, 6):
        found = stream.records(0, begin, begin + 6)
        assert found == plain.records(0, begin, begin + 6)
        seen += found
    assert sorted(seen) == sorted(plain.records(0, 0, 192))
    messages = sum("read" in one for one in sent)
    assert messages <= 2 * 12  # 2 to each of the 2 blocks' first leases, and then one in eight; without guesses, 64
    places = [(0, 6), (60, 66), (12, 18), (18, 24), (24, 30), (36, 42), (24, 30), (150, 156), (24, 30), (30, 36)]
    draw = random.Random(1)
    for begin, end in places + [(begin, begin + draw.randrange(1, 9)) for begin in draw.choices(range(180), k=200)]:
        assert stream.records(0, begin, end) == plain.records(0, begin, end)


def test_a_record_that_came_ahead_belongs_to_who_asked(files: Path) -> None:
    """A map= may change its record, and the lease may be read again after another worker's death."""
    lists = Shards(["all"], lambda name: ([number] for number in range(100)))
    stream = Stream(HostSource(lists, f"ahead-{os.getpid()}-{files.name}", 1), shuffle=96)
    for begin in [0, 10, 20, 30, 40, 30, 40, 50, 60]:
        records = stream.records(0, begin, begin + 10)
        assert all(len(record) == 1 for record in records)
        for record in records:
            record.append("changed")


def test_large_records_do_not_come_ahead(files: Path) -> None:
    lists = Shards(["all"], lambda name: (bytes(8000) for _ in range(200)))
    source = HostSource(lists, f"large-{os.getpid()}-{files.name}", 1)
    stream = Stream(source, shuffle=96)
    for begin in range(0, 90, 10):
        stream.records(0, begin, begin + 10)
        assert not source._ahead


def test_what_comes_ahead_is_never_waited_for(files: Path) -> None:
    """Records that are not in the reader's memory, as damaged ones, are not read for a guess."""
    (files / "data" / "2.txt").write_text("2.0\n2.1\n2.2\n2.3\ndamaged\n")
    source = shared(files)
    assert source.read_many({2: [0, 1]}, [(2, 1), (2, 2), (2, 3), (2, 4)]) == {2: ["2.0", "2.1"]}
    assert source.read_many({2: [2, 3]}) == {2: ["2.2", "2.3"]}


def test_leases_that_come_in_equal_steps_go_on_so() -> None:
    guess = LeaseGuess()
    assert guess.after(0, 0, 10, 100) == guess.after(0, 20, 30, 100) == []
    assert guess.after(0, 40, 50, 100) == [(60, 70), (80, 90)]
    assert guess.after(0, 60, 70, 1000)[-1] == (200, 210)
    assert guess.after(0, 80, 85, 1000) == []  # another size
    assert guess.after(0, 100, 105, 1000) == [(begin, begin + 5) for begin in range(120, 260, 20)]
    assert guess.after(1, 120, 125, 1000) == []  # another pass
    for begin in (50, 45, 40):  # backwards
        assert guess.after(1, begin, begin + 5, 1000) == []
    for _ in range(3):
        assert guess.after(1, 40, 45, 1000) == []
    for begin in (50, 52, 54):  # leases that overlap
        assert guess.after(1, begin, begin + 5, 1000) == []
