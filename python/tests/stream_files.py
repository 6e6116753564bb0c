"""Helpers of the tests of sources."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import re
from collections.abc import Iterator

import pytest

from paceline.errors import PacelineError
from paceline.streams.source import up_to


def library(name: str):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def text_of(records: list) -> str:
    return re.sub(" at 0x[0-9a-fA-F]+", "", str(records))


def everything(source) -> list:
    """All records, shard by shard, at once and in pieces of any places."""
    records = [source.read(shard, range(up_to(source, shard, 1 << 40))) for shard in range(len(source.shards()))]
    draw = random.Random(1)
    for shard, whole in enumerate(records):
        for _ in range(10):
            places = sorted(draw.sample(range(len(whole)), min(len(whole), 7)))
            assert text_of(source.read(shard, places)) == text_of([whole[place] for place in places])
    other = pickle.loads(pickle.dumps(source))
    assert text_of(other.read(0, [0])) == text_of(records[0][:1])
    return [one for shard in records for one in shard]


@contextlib.contextmanager
def refused(text: str) -> Iterator[None]:
    with pytest.raises(PacelineError, match=text) as caught:
        yield
    assert "\n" not in str(caught.value) and "; " in str(caught.value)


def in_child(source) -> list:
    """Reads a few records in a forked process and in this one."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(into, "wb") as file:
            pickle.dump([source.read(0, [place]) for place in (2, 0, 1)], file)
        os._exit(0)
    os.close(into)
    here = [source.read(0, [place]) for place in (2, 0, 1)]
    with os.fdopen(out, "rb") as file:
        there = pickle.load(file)
    os.waitpid(child, 0)
    assert text_of(there) == text_of(here)
    return here
