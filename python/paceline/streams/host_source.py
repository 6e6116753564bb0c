"""A source that all workers of a host read together, so that each shard is read once and not once a worker.

Reader processes hold the shards, each its own. They belong to no worker: a worker that dies leaves them to the
others, and they end when no worker has been connected for a while. The order of records does not depend on who reads
them. So if a reader dies, each worker goes on by reading that reader's shards itself.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import selectors
import signal
import socket
import struct
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ..own_socket import is_of_this_user
from .forward import Forward
from .read_ahead import ReadAhead
from .said import say_once
from .source import is_sized

_IDLE_SECONDS = 3.0
_CONNECT_SECONDS = 10.0
_TRIES, _TRY_SECONDS = 20, 0.05
_HEAD = struct.Struct("<qqd")  # the bytes of an answer, those of records ahead, and Forward.seconds_again
_FAILED = -1  # in the place of the bytes: the reader could not answer
_COSTLY_SECONDS = 10
_MOST_BYTES_AHEAD = 1 << 16  # records of larger answers would take much memory

# The sockets of this process. A fork that kept one would hide this process's death from the other side, which would
# wait for an answer, or for room to send one, as long as the fork lives.
_SOCKETS: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class HostSource:
    def __init__(self, source: Forward, name: str, readers: int) -> None:
        """name: the same for all workers of the host that are to share the source, and for no others."""
        self._source = source
        self._name = name
        self._said = False
        self._ahead: dict[tuple[int, int], Any] = {}  # key: shard and record
        source.keep_places(name)
        self._addresses = [f"\0paceline-reader-{os.getuid()}-{name}-{number}" for number in range(readers)]
        self._connections: dict[int, socket.socket | None] = {}  # None: the reader is gone
        self._pid = os.getpid()
        self.sized = is_sized(source)
        for number, address in enumerate(self._addresses):
            self._connections[number] = _reached(source, address)

    def __repr__(self) -> str:
        return repr(self._source)

    def shards(self) -> Sequence[str]:
        return list(self._source.shards())

    def length(self, shard: int) -> int:
        return int(self._source.length(shard))

    def up_to(self, shard: int, most: int) -> int:
        known = self._ask(shard, {"shard": shard, "most": most})
        return self._source.up_to(shard, most) if known is None else int(known)

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        found = self._ask(shard, {"read": [[shard, list(records)]]})
        return self._source.read(shard, records) if found is None else list(found[0])

    def read_many(
        self, wanted: Mapping[int, Sequence[int]], ahead: Sequence[tuple[int, int]] = ()
    ) -> dict[int, list[Any]]:
        """The records of several shards, asked for at once. Shards that read() has to be asked for are left out.

        ahead: shard and number of records that are likely to be wanted next. Those that readers have in memory come
        along, so that the next call needs no message.
        """
        if all((shard, record) in self._ahead for shard, records in wanted.items() for record in records):
            return {
                shard: [self._ahead.pop((shard, record)) for record in records] for shard, records in wanted.items()
            }
        self._ahead = {}
        requests: dict[int, dict[str, Any]] = {}
        for shard, records in wanted.items():
            request = requests.setdefault(shard % len(self._addresses), {"read": [], "ahead": []})
            request["read"].append([shard, list(records)])
        for shard, record in ahead:
            if shard % len(self._addresses) in requests:
                requests[shard % len(self._addresses)]["ahead"].append([shard, record])
        found: dict[int, list[Any]] = {}
        try:
            for reader in [one for one, request in requests.items() if self._send(one, request)]:
                answer = self._receive(reader)
                if answer is not None:
                    found.update(zip((shard for shard, _ in requests[reader]["read"]), answer))
        except BaseException:
            for reader in requests:  # the next question would get the answer to this one
                self._lose(reader)
            raise
        return found

    def soon(self, shards: Sequence[int]) -> None:
        if hasattr(self._source, "soon"):
            self._source.soon(shards)

    def _ask(self, shard: int, request: dict[str, Any]) -> Any:
        """The answer; None if the caller has to read by itself, which also shows what is wrong with the data."""
        reader = shard % len(self._addresses)
        try:
            return self._receive(reader) if self._send(reader, request) else None
        except BaseException:  # a signal's handler may raise; the next question would get the answer to this one
            self._lose(reader)
            raise

    def _send(self, reader: int, request: dict[str, Any]) -> bool:
        connection = self._connection(reader)
        if connection is None:
            return False
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            return True
        except OSError:
            self._lose(reader)
            return False

    def _receive(self, reader: int) -> Any:
        connection = self._connections[reader]
        assert connection is not None
        try:
            size, more, seconds = _HEAD.unpack(_received(connection, _HEAD.size))
            data = memoryview(_received(connection, max(size, 0) + more))
            if seconds > _COSTLY_SECONDS:
                self._say_cost()
            if size == _FAILED:
                return None
            if more:
                self._ahead.update(pickle.loads(data[size:]))
            return pickle.loads(data)
        except OSError:
            self._lose(reader)
            return None

    def _say_cost(self) -> None:
        if self._said:
            return
        self._said = True
        source = f"{type(self._source).__name__}([{self._source.shards()[0]!r}, …])"
        say_once(
            self._name,
            f"paceline: a shard of {source} took more than {_COSTLY_SECONDS} s, and what open= gives cannot save its "
            "place, so after a resume or the death of a reader it is read again from its beginning; give the object "
            "state_dict() and load_state_dict(), or make many small shards",
        )

    def _lose(self, reader: int) -> None:
        connection = self._connections.get(reader)
        if connection is not None:
            connection.close()
        self._connections[reader] = None

    def _connection(self, reader: int) -> socket.socket | None:
        if os.getpid() != self._pid:  # a fork's answers would be mixed with its parent's
            self._connections, self._pid = {}, os.getpid()
        if reader not in self._connections:
            self._connections[reader] = _connected(self._addresses[reader])
        return self._connections[reader]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": {}, "_ahead": {}}


def job_on_host(host_folder: str, run: str) -> str:
    """A name that the workers of a run on this host have in common; empty if they have no folder here.

    The folder alone does not do: a host that does not lead uses the same one for all runs of a job.
    A program that was changed since is another one: its shards may be opened in another way.
    """
    if not host_folder:
        return ""
    try:
        changed = os.stat(sys.argv[0]).st_mtime_ns
    except OSError:
        changed = 0
    named = f"{os.path.realpath(host_folder)} {run} {changed}"
    return hashlib.blake2b(os.fsencode(named), digest_size=8).hexdigest()


def _reached(source: Any, address: str) -> socket.socket | None:
    """A connection to a reader, which may have to be started. The connection keeps it here until there is work."""
    for _ in range(_TRIES):
        _start_reader(source, address)
        connection = _connected(address)
        if connection is not None:
            return connection
        time.sleep(_TRY_SECONDS)  # the reader does not listen yet, or has just ended
    return None


def _connected(address: str) -> socket.socket | None:
    connection = closed_in_a_fork(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        connection.settimeout(_CONNECT_SECONDS)
        _connect(connection, address)
        connection.settimeout(None)
    except OSError:
        connection.close()
        return None
    # Answers are unpickled, so only this user's own processes may give them.
    return connection if is_of_this_user(connection) else None


def _connect(connection: socket.socket, address: str) -> None:
    """Waits while more processes want to connect than the reader has room for: the kernel then refuses at once."""
    until = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return connection.connect(address)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(_TRY_SECONDS)


def _received(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionResetError
        data += piece
    return bytes(data)


def closed_in_a_fork(one: socket.socket) -> socket.socket:
    _SOCKETS.add(one)
    return one


def leave_readers() -> None:
    """This process asks nothing more.

    Readers that nobody asks end. They hold what the program had open when they were forked, such as a pipe to a
    process of its own, which waits for the pipe's end.
    """
    for one in list(_SOCKETS):
        one.close()
    _SOCKETS.clear()


os.register_at_fork(after_in_child=leave_readers)  # a fork makes connections of its own


def _start_reader(source: Any, address: str) -> None:
    """Unless another worker of this host has started it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        return
    listener.listen(socket.SOMAXCONN)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:  # its parent is init, so nobody has to wait for its end
                os.setsid()
                _become_reader(source, listener)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    listener.close()


def _become_reader(source: Any, listener: socket.socket) -> None:
    import torch

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    torch.set_num_threads(1)  # others of its parent's died in the fork
    gc.freeze()  # a collection would look at all that the program has, and so copy its pages
    Reader(source, listener).serve()


class Reader:
    def __init__(self, source: Forward, listener: socket.socket) -> None:
        source.gives_copies = True
        self._source = source
        self._listener = listener
        closed_in_a_fork(listener)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._asked: dict[socket.socket, bytearray] = {}
        self._answers: dict[socket.socket, memoryview] = {}  # the parts that were not taken yet
        self._ahead = ReadAhead(source)

    def serve(self) -> None:
        """Until nobody is connected, and nobody comes for a while."""
        while True:
            reads = bool(self._asked and self._ahead)
            events = self._selector.select(0 if reads else None if self._asked else _IDLE_SECONDS)
            if not events and not reads:
                return
            if not events:
                self._ahead.read_some()
            for key, ready in events:
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._talk(key.fileobj, ready)  # type: ignore[arg-type]

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if not is_of_this_user(connection):
            connection.close()
            return
        closed_in_a_fork(connection)
        connection.setblocking(False)
        self._asked[connection] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ)

    def _talk(self, connection: socket.socket, ready: int) -> None:
        try:
            if ready & selectors.EVENT_READ:
                piece = connection.recv(1 << 16)
                if not piece:
                    raise ConnectionResetError
                self._asked[connection] += piece
            self._send(connection)
            asked = self._asked[connection]
            while connection not in self._answers and (end := asked.find(b"\n")) >= 0:
                request = json.loads(asked[:end])
                del asked[: end + 1]
                self._answers[connection] = memoryview(self._answer(request))
                self._send(connection)
        except OSError:
            self._selector.unregister(connection)
            del self._asked[connection]
            self._answers.pop(connection, None)
            connection.close()

    def _send(self, connection: socket.socket) -> None:
        """Sends what there is room for: one who stands still must not keep the others waiting."""
        rest = self._answers.pop(connection, memoryview(b""))
        try:
            while rest:
                rest = rest[connection.send(rest) :]
            self._selector.modify(connection, selectors.EVENT_READ)
        except BlockingIOError:
            self._answers[connection] = rest
            self._selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _answer(self, request: dict[str, Any]) -> bytes:
        try:
            if "most" in request:
                answer: Any = self._source.up_to(request["shard"], request["most"])
                self._ahead.asked(request["shard"], request["most"])
            else:
                answer = [self._source.read(shard, records) for shard, records in request["read"]]
                for shard, records in request["read"]:
                    self._ahead.asked(shard, records[-1] + 1)
            data = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
            more = b""
            if request.get("ahead") and len(data) <= _MOST_BYTES_AHEAD:
                ahead = self._source.in_memory(request["ahead"])
                more = pickle.dumps(ahead, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # who asked finds the same, and can say it
            return _HEAD.pack(_FAILED, 0, self._source.seconds_again)
        return _HEAD.pack(len(data), len(more), self._source.seconds_again) + data + more
