"""An HTTP server of a folder, some of whose answers are cut, late or errors."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


class Misbehaving:
    """Its faults, and what it was asked for. `faults` are taken one at a time by the next GETs, in order.

    `statuses` are taken by the next HEADs and GETs, before them.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.statuses: list[int] = []
        self.chunked = False  # in chunks, without a size
        self.whole = False  # no parts of a file
        self.mark = "ETag"  # the header that differs if a file does
        self.encoding = ""  # the header Content-Encoding; Apache says gzip of a file named .gz
        self.gets: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.lock = threading.Lock()


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Misbehaving

    def __init__(self, *arguments, state: Misbehaving, **options) -> None:
        self.state = state
        super().__init__(*arguments, **options)

    def _is_refused(self) -> bool:
        with self.state.lock:
            status = self.state.statuses.pop(0) if self.state.statuses else 0
        if status:
            self.send_error(status)
        return status != 0

    def do_GET(self) -> None:
        if self._is_refused():
            return
        with self.state.lock:
            self.state.gets[self.path] += 1
            fault = self.state.faults.pop(0) if self.state.faults else ""
        path = Path(self.translate_path(self.path))
        if fault == "error":
            self.send_error(503)
            return
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        begin, end = 0, len(data)
        if (wanted := self.headers.get("Range")) and not self.state.whole:
            first, last = wanted.removeprefix("bytes=").split("-")
            begin, end = int(first), min(end, int(last) + 1 if last else end)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        else:
            self.send_response(200)
        if self.state.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(end - begin))
        self._send_mark(path)
        self.end_headers()
        cut = (end - begin) // 2 if fault == "cut" else end - begin
        with contextlib.suppress(OSError):
            if self.state.chunked:
                self.wfile.write(b"%x\r\n%b\r\n" % (cut, data[begin : begin + cut]))
                self.wfile.write(b"" if fault == "cut" else b"0\r\n\r\n")
            else:
                self.wfile.write(data[begin : begin + cut])
        with self.state.lock:
            self.state.bytes[self.path] += cut
        if fault == "cut":
            self.close_connection = True

    def _send_mark(self, path: Path) -> None:
        if self.state.encoding:
            self.send_header("Content-Encoding", self.state.encoding)
        changed = path.stat().st_mtime_ns
        self.send_header(
            self.state.mark, f'"{changed}"' if self.state.mark == "ETag" else self.date_time_string(changed // 10**9)
        )

    def do_HEAD(self) -> None:
        if self._is_refused():
            return
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        if not self.state.chunked:
            self.send_header("Content-Length", str(path.stat().st_size))
        if not self.state.whole:
            self.send_header("Accept-Ranges", "bytes")
        self._send_mark(path)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Misbehaving]:
    state = Misbehaving("")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder), state=state)
    )
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
