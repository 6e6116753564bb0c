"""Files that the processes of a host make once and keep on its disk: copies and indices."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest
from stream_files import library

from paceline import held_files
from paceline.streams import FileShards, JsonLines, Remote, Stream
from paceline.streams.disk_cache import DiskCache, cache_folder


def test_on_a_disk_that_is_full_the_oldest_files_make_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1000)
    cache.using("old", lambda path: path.write_bytes(b"old") and None, Path.read_bytes)
    tries: list[int] = []

    def make(path: Path) -> None:
        tries.append(1)
        if len(list((tmp_path / "cache").glob("[0-9a-f]*"))) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(b"new")

    assert cache.using("new", make, Path.read_bytes) == b"new"
    assert len(tries) == 2


def test_a_user_without_a_home_has_no_cache_in_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PACELINE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # no entry in passwd
    assert cache_folder() == Path("/.cache/paceline")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert cache_folder() == Path.cwd() / "caches/paceline"


def test_a_maker_that_was_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1000)

    def die(path: Path) -> None:
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        cache.using("key", die, Path.read_bytes, size=900)
    os.waitpid(child, 0)
    assert [file.suffix for file in (tmp_path / "cache").iterdir() if file.suffix] == [".part"]
    assert cache.using("other", lambda path: None if path.write_bytes(b"x" * 500) else None, Path.read_bytes, 500)
    assert not list((tmp_path / "cache").glob("*.part"))
    assert cache.using("key", lambda path: path.write_bytes(b"whole") and None, Path.read_bytes) == b"whole"


def test_files_whose_names_end_as_partial_files_do(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for name in ("a.part", "b.9.part", "c.part"):
        (tmp_path / "files" / name).write_bytes(b"x" * 400)
    cache = DiskCache(tmp_path / "cache", 1000)
    for name in ("a.part", "b.9.part", "c.part"):

        def copy(path: Path, name: str = name) -> None:
            path.write_bytes((tmp_path / "files" / name).read_bytes())

        assert len(cache.using(name, copy, Path.read_bytes, size=400, ending=f"-{name}")) == 400
    assert len(list((tmp_path / "cache").glob("*.part"))) == 2  # the first one has made room


def test_a_cache_that_is_deleted_while_a_file_is_made_is_begun_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1000)
    tries: list[int] = []

    def make(path: Path) -> None:
        tries.append(1)
        path.write_bytes(b"data")
        if len(tries) == 1:
            shutil.rmtree(tmp_path / "cache")

    assert cache.using("key", make, Path.read_bytes, size=4) == b"data"
    assert len(tries) == 2


def test_two_that_make_a_file_after_its_cache_was_deleted_do_not_write_the_same_file(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1000)
    paths: list[Path] = []

    def make(path: Path) -> None:
        paths.append(path)
        path.write_bytes(b"data")
        if len(paths) == 1:
            shutil.rmtree(tmp_path / "cache")
            assert cache.using("key", make, Path.read_bytes, size=4) == b"data"

    assert cache.using("key", make, Path.read_bytes, size=4) == b"data"
    assert len(paths) == 2 and paths[0] != paths[1]


class _Forgets(set):
    def add(self, _: int) -> None:
        pass


@pytest.mark.parametrize("known", [True, False], ids=["a lock that is known", "one that a thread has just opened"])
def test_a_fork_does_not_hold_its_parents_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    monkeypatch.setattr(held_files, "_HELD", set() if known else _Forgets())
    cache = DiskCache(tmp_path / "cache", 1000)
    children = []
    ready, here = os.pipe()

    def fork_and_write(path: Path) -> None:
        child = os.fork()
        if child == 0:
            os.write(here, b"x")
            signal.pause()
        children.append(child)
        os.read(ready, 1)
        path.write_bytes(b"data")

    try:
        assert cache.using("key", fork_and_write, Path.read_bytes) == b"data"
        for file in (tmp_path / "cache").glob("lock-*"):
            with cache._locked(f"{int(file.name.removeprefix('lock-')):x}", wait=False) as locked:
                assert locked
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_an_index_is_made_once_a_host_and_again_for_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "a.jsonl"
    file.write_text('{"number": 1}\n' * 30000)
    found: list[int] = []
    find = JsonLines._find_lines
    monkeypatch.setattr(JsonLines, "_find_lines", lambda self, shard: found.append(shard) or find(self, shard))
    assert len(Stream(JsonLines(str(file)))) == len(Stream(JsonLines(str(file)))) == 30000
    assert len(found) == 1
    with file.open("a") as more:
        more.write('{"number": 2}\n')
    assert len(Stream(JsonLines(str(file)))) == 30001
    assert len(found) == 2
    for index in (tmp_path / "cache" / "indices").glob("[0-9a-f]*"):  # a loss of power does it
        index.write_bytes(b"\0" * index.stat().st_size)
    assert len(Stream(JsonLines(str(file)))) == 30001
    assert len(found) == 3


def test_an_index_without_a_disk_is_made_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "file"))
    file = tmp_path / "a.jsonl"
    file.write_text('{"number": 1}\n' * 30000)
    assert len(Stream(JsonLines(str(file)))) == 30000


def test_a_cache_may_be_in_the_home_folder_and_stays_when_the_program_goes_to_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library("fsspec")
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for cache, folder in (("~/copies", tmp_path / "home" / "copies"), ("copies", tmp_path / "copies")):
        source = FileShards(Remote(f"file://{tmp_path}/a.txt", cache=cache), open)
        monkeypatch.chdir(tmp_path / "other")
        assert list(Stream(source).epoch()) == ["a\n"] and len(list(folder.glob("*-a.txt"))) == 1
        monkeypatch.chdir(tmp_path)
