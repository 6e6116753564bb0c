"""The socket between a program and its worker."""

from __future__ import annotations

import fcntl
import resource
import socket

import pytest

from paceline.channel import Channel


def test_a_program_with_many_open_files_hears_its_worker() -> None:
    above = 1500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= above:
        pytest.skip(f"a process may have {hard} open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, above + 1), hard))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, above))
        try:
            assert not channel.ready(0)
            theirs.sendall(b'{"type":"end"}\n')
            assert channel.ready(1) and channel.read() == {"type": "end"}
        finally:
            channel.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
