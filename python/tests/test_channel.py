"""The socket between a program and its worker."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
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


def test_a_fork_that_lives_on_does_not_hide_the_end_of_a_channel() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours.detach())
        if (child := os.fork()) == 0:
            signal.pause()
        try:
            channel.close()
            theirs.settimeout(20)
            assert theirs.recv(1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
