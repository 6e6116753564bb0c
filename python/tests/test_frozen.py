"""Frozen tensors in one process: their digests, the file of their values, and writes to them."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member
from live_job import read_safetensors
from scripts import HEAD
from test_write_watch import FOLLOWS, ON_CPU, OTHERS

from paceline import digests, tensor_file
from paceline.digests import BLOCK, block_sums, digest
from paceline.errors import PacelineError
from paceline.frozen import VALUES, Frozen
from paceline.inventory import take_inventory
from paceline.tensor_file import TensorFile, TensorFileWriter


def digest_of(tensor: torch.Tensor) -> str:
    return digest(tensor, block_sums(tensor))


@pytest.mark.parametrize("size", [1, 7, 8, 1001, 8 * BLOCK, 24 * BLOCK + 13])
def test_a_digest_sees_every_byte(size: int) -> None:
    values = torch.randint(0, 256, (size,), dtype=torch.uint8)
    known = digest_of(values)
    assert digest_of(values.clone()) == known
    for at in {0, size // 3, size - 1}:
        for bit in (1, 128):
            other = values.clone()
            other[at] ^= bit
            assert digest_of(other) != known, at
    moved = values.roll(8)  # the same integers in other places
    assert torch.equal(moved, values) or digest_of(moved) != known
    assert digest_of(values.view(1, -1)) != known and digest_of(values.view(torch.int8)) != known


def test_a_digest_is_the_same_however_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(3 * BLOCK, 2)
    sums = block_sums(values)
    assert torch.equal(block_sums(values, 1, 1), sums[1:2]) and torch.equal(block_sums(values, 2), sums[2:])
    monkeypatch.setitem(digests._BLOCKS_AT_ONCE, "cpu", 64)  # a GPU takes so many
    assert torch.equal(block_sums(values), sums)
    assert digest_of(values.t().contiguous().t()) == digest(values, sums)  # other strides
    raw = torch.zeros(values.numel() * 4 + 3, dtype=torch.uint8)
    raw[3:] = digests.flat_bytes(values)
    assert digest_of(raw[3:]) == digest_of(raw[3:].clone())  # at an odd address


def test_the_file_of_values(tmp_path: Path) -> None:
    tensors = {
        "flags": torch.tensor([1, 0, 1]),
        "w": torch.randn(5000, 4000),
        "x": torch.randn(3, 4).t(),
        "y": torch.tensor(2.5),
    }
    path = tmp_path / "frozen.safetensors"
    writer = TensorFileWriter(str(path), list(tensors.items()))
    second = TensorFileWriter(str(path), list(tensors.items()))  # another process: only one writes
    second.finish()
    assert not path.exists()
    writer.go_on()
    writer.finish()
    read = read_safetensors(path)
    assert read.keys() == tensors.keys() and all(torch.equal(read[name], tensors[name]) for name in tensors)
    file = TensorFile(str(path))
    assert "w" in file and "__metadata__" not in file and "v" not in file
    assert torch.equal(file.view("x", torch.float32), tensors["x"]) and file.type("flags") == "I64"
    before = path.stat().st_mtime_ns
    TensorFileWriter(str(path), []).finish()
    assert path.stat().st_mtime_ns == before and [*tmp_path.iterdir()] in (
        [path],
        [path, tmp_path / "frozen.safetensors.partial"],
    )


def file_of(path: Path, header: Any, data: bytes = bytes(16)) -> str:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def stored(begin: Any, end: Any, shape: Any = (4,), dtype: Any = "F32") -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("header", [[1, 2], 3, None, b"[" * 200_000, b'{"a":' * 200_000, b"\xff\xfe{", b"1" * 5000])
def test_a_header_that_is_no_object_is_one_line(tmp_path: Path, header: Any) -> None:
    with pytest.raises(PacelineError, match=r"^\S+: is no safetensors file; write it with safetensors, or with"):
        TensorFile(file_of(tmp_path / "values", header))


@pytest.mark.parametrize(
    "tensors",
    [
        {"w": stored(-16, 0)},
        {"w": stored(-8, 8)},
        {"w": stored(16, 0)},
        {"w": stored(8, 24)},
        {"w": stored(1 << 70, (1 << 70) + 16)},
        {"w": stored(0.0, 16.0)},
        {"w": stored(False, 16)},
        {"w": stored(None, "16")},
        {"w": {**stored(0, 16), "data_offsets": [0]}},
        {"w": {**stored(0, 16), "data_offsets": 16}},
        {"w": {"dtype": "F32", "shape": [4]}},
        {"w": [0, 16]},
        {"w": stored(0, 16, [2, -2])},
        {"w": stored(0, 16, [-2, -2])},
        {"w": stored(0, 16, ["4"])},
        {"w": stored(0, 16, 4)},
        {"w": stored(0, 0, [1 << 40, 1 << 40, 0])},
        {"w": stored(0, 16, dtype=["F32"])},
        {"w": stored(0, 12)},
        {"w": stored(0, 16), "v": stored(12, 16, [1])},
        {"w": stored(0, 16), "v": stored(0, 16)},
        {"w": stored(0, 16), "v": stored(0, 32, [8])},
    ],
    ids=str,
)
def test_a_header_that_does_not_suit_its_file_is_one_line(tmp_path: Path, tensors: Any) -> None:
    path = file_of(tmp_path / "values", {"__metadata__": {"format": "pt"}, **tensors})
    with pytest.raises(
        PacelineError, match=r"^\S+: the file is damaged, or was not copied as a whole; write it with"
    ):
        TensorFile(path).view("w", torch.float32)


def test_tensors_without_numbers_lie_between_others(tmp_path: Path) -> None:
    tensors = {
        "none": stored(8, 8, [2, 0]),
        "one": stored(0, 8, [2]),
        "w": stored(8, 16, [2]),
        "no": stored(16, 16, [0]),
    }
    file = TensorFile(file_of(tmp_path / "values", tensors))
    assert file.view("none", torch.float32).shape == (2, 0) and file.view("no", torch.float32).shape == (0,)
    assert torch.equal(file.view("w", torch.float32), torch.zeros(2))


def test_a_fork_of_a_writer_does_not_keep_the_file_from_others(tmp_path: Path) -> None:
    """A reader that the program forked may outlive it."""
    path, named = str(tmp_path / "frozen"), [("w", torch.arange(4.0))]
    may_end, ends = os.pipe()
    dies = os.fork()
    if dies == 0:
        TensorFileWriter(path, named)
        if os.fork() == 0:
            os.close(ends)
            os.read(may_end, 1)
        os._exit(0)
    os.waitpid(dies, 0)
    os.close(may_end)
    TensorFileWriter(path, named).finish()
    os.close(ends)
    assert torch.equal(TensorFile(path).view("w", torch.float32), torch.arange(4.0))


def frozen_of_a_model(may_write: bool = False) -> tuple[Frozen, torch.Tensor]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    model[0].requires_grad_(False)
    return Frozen(take_inventory(model).frozen, may_write), model[0].weight


def full_disk(fd: int, data: memoryview) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_values_that_did_not_fit_leave_no_bytes_and_are_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    frozen, weight = frozen_of_a_model()
    wrote = tensor_file._write_all

    def writes_the_header_alone(fd: int, data: memoryview) -> None:
        wrote(fd, data)
        monkeypatch.setattr(tensor_file, "_write_all", full_disk)

    monkeypatch.setattr(tensor_file, "_write_all", writes_the_header_alone)
    frozen.keep(str(tmp_path), values=True, first=True)
    said = ""
    while "No space left on device" not in said:
        frozen.stepped()
        said += capfd.readouterr().err
    assert "make room there, or leave the values out" in said and "the next try is at the end of the job" in said
    assert (tmp_path / "frozen.safetensors.partial").stat().st_size == 0
    monkeypatch.setattr(tensor_file, "_write_all", wrote)
    frozen.finish(job_is_done=True)
    assert torch.equal(TensorFile(str(tmp_path / VALUES)).view("0.weight", torch.float32), weight)
    assert capfd.readouterr().err == ""


def test_values_that_never_fit_do_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    frozen, _ = frozen_of_a_model()
    monkeypatch.setattr(tensor_file, "_write_all", full_disk)
    frozen.keep(str(tmp_path), values=True, first=True)
    frozen.finish(job_is_done=True)
    assert capfd.readouterr().err.count("frozen.safetensors: cannot be written: No space left on device") == 1


def test_other_values_than_the_run_began_with_are_refused(tmp_path: Path) -> None:
    """Another kind of processor computes others from the same seed, and the run may have the first ones."""
    frozen, _ = frozen_of_a_model()
    frozen.keep(str(tmp_path), values=False, first=True)
    others, _ = frozen_of_a_model()
    with pytest.raises(PacelineError, match=r"0\.weight and 1 more tensors are frozen.* before you build it$"):
        others.compare(str(tmp_path))
    frozen.keep(str(tmp_path), values=True, first=True)
    frozen.finish(job_is_done=False)
    kept = str(tmp_path / VALUES)
    with pytest.raises(
        PacelineError, match=f"paceline export {tmp_path} model.safetensors, then --resume with --set "
    ):
        others.compare(str(tmp_path))
    third, _ = frozen_of_a_model()
    third.load(kept, str(tmp_path))
    third.compare(str(tmp_path))


def test_a_link_that_somebody_made_in_the_run_s_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear")
    (tmp_path / f"frozen.json.{os.getpid()}").symlink_to(tmp_path / "mine")
    frozen, _ = frozen_of_a_model()
    frozen.keep(str(tmp_path), values=False, first=True)
    assert (tmp_path / "frozen.json").exists() and (tmp_path / "mine").read_text() == "dear"


def test_values_without_room_are_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, _ = frozen_of_a_model()
    disk = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))  # 1000 blocks, and none of them is free
    monkeypatch.setattr(os, "fstatvfs", lambda fd: disk)
    with pytest.raises(
        PacelineError, match=r"frozen.safetensors: has \d+ bytes, and its disk has room for 0; make room"
    ):
        frozen.keep(str(tmp_path), values=True, first=True)


@pytest.mark.parametrize("done", [True, False])
def test_another_worker_writes_the_values_if_the_first_one_was_killed(tmp_path: Path, done: bool) -> None:
    frozen, weight = frozen_of_a_model()
    frozen.keep(str(tmp_path), values=True, first=False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "frozen.safetensors.partial").write_bytes(b"half of it")
    frozen.finish(job_is_done=done)
    assert (tmp_path / VALUES).exists() == done  # another start of the job writes them otherwise
    if done:
        assert torch.equal(TensorFile(str(tmp_path / VALUES)).view("0.weight", torch.float32), weight)


def test_another_worker_that_may_write_to_its_weights_has_no_values_of_the_start(tmp_path: Path) -> None:
    frozen, _ = frozen_of_a_model(may_write=True)
    frozen.keep(str(tmp_path), values=True, first=False)
    frozen.finish(job_is_done=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reads", ["at a step that waits", "at the end"])
def test_nobody_waits_for_a_look_before_a_step_that_waits(monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    frozen, weight = frozen_of_a_model()
    frozen.digests()
    frozen.check(waits=True)

    def waits(*_: object) -> None:
        raise AssertionError("this waits for the device")

    with monkeypatch.context() as patch:
        for name in ("__bool__", "__int__", "cpu", "item", "to", "tolist"):
            patch.setattr(torch.Tensor, name, waits)
        before = weight.data.clone()
        weight.data += 1
        for _ in range(4):  # each looks at one of two tensors
            frozen.check(waits=False)
        weight.data.copy_(before)  # a find stays
    with pytest.raises(PacelineError, match=r"wrote to the weight 0\.weight"):
        if reads == "at the end":
            frozen.read_looks()
        else:
            frozen.check(waits=True)
    frozen.check(waits=True)


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
def test_a_write_that_pytorch_does_not_count(tmp_path: Path, environment: dict[str, str]) -> None:
    write = "model.slow.last.bias.data.add_(1)"
    script = HEAD + FOLLOWS.format(weights="view", before="pass", after=write)
    with Member(tmp_path, script, environment=environment) as member:
        member.begin()
        for _ in range(8):  # one frozen tensor is looked at in each step
            member.order([1, 2, 3])
            answer = member.receive()
            if answer["type"] == "error":
                break
        assert answer["type"] == "error" and "wrote to the weight slow.last.bias" in answer["text"]
