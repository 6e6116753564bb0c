"""A script that was started by hand becomes a job with one worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import NoReturn


def launch() -> NoReturn:
    """Replaces this process by `paceline run` of the same program."""
    program = own_command()
    executable = _find()
    if executable is None:
        _stop(
            "the executable `paceline` is not beside this Python, in the package or in PATH; set PACELINE to its path"
        )
    command = [executable, "run", "--python", sys.executable, *program, "--", *sys.argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(executable, command)
    except OSError as error:
        _stop(f"cannot start {executable}: {error.strerror}")


def own_command() -> list[str]:
    """What starts this process's program again, between Python and its arguments."""
    main = sys.modules.get("__main__")
    path: str | None = getattr(main, "__file__", None)
    if hasattr(sys, "ps1") or path is None or "ipykernel" in sys.modules:
        _stop(
            "join() was called in an interactive interpreter, and a job starts its script anew for each worker; "
            "write the program to a file and start it with `paceline run FILE`"
        )
    spec = getattr(main, "__spec__", None)
    if spec is None:
        return [os.path.abspath(path)]
    return ["-m", spec.name.removesuffix(".__main__")]


def in_child_process() -> bool:
    """Of multiprocessing, which has imported the script once more."""
    import multiprocessing

    return multiprocessing.parent_process() is not None


def _find() -> str | None:
    for candidate in _candidates():
        found = shutil.which(candidate)
        if found is not None:
            return found
    return None


def _candidates() -> Iterator[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(os.path.dirname(sys.executable), "paceline")
    yield os.path.join(here, "bin", "paceline")
    yield "paceline"
    named = os.environ.get("PACELINE")
    if named:
        yield named


def _stop(line: str) -> NoReturn:
    print(f"paceline: {line}", file=sys.stderr, flush=True)
    if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        from .errors import PacelineError

        raise PacelineError(line)
    raise SystemExit(2)
