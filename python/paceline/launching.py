"""A script that was started by hand becomes a job with one worker."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, NoReturn

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

VARIABLE = "PACELINE_SAID_FD"
_END_S = 5.0  # for a process of the program that was asked to end


def _folder() -> str:
    try:
        return _from_main() or os.getcwd()
    except OSError:  # the folder was deleted
        return "."


def _from_main() -> str | None:
    """The folder in which Python was started, as far as its main module tells. The program may be elsewhere."""
    main = sys.modules.get("__main__")
    path, said = getattr(main, "__file__", None), sys.argv[0] if sys.argv else ""
    spec = getattr(main, "__spec__", None)
    if path is not None and spec is not None and spec.name != "__main__":
        # Python has looked for the module in this folder first: python -m.
        folder = sys.path[0] if sys.path else ""
        beside = os.path.join(folder, *spec.name.split("."))
        return folder if os.path.isabs(folder) and path in (f"{beside}.py", f"{beside}.pyc") else None
    # Python has put the folder before the name that it was given.
    if path is None or not said or os.path.isabs(said) or not path.endswith(os.sep + said):
        return None
    folder = path[: -len(said) - 1] or os.sep
    return folder if os.path.isdir(folder) else None


# The program's folder, name and arguments at its start. It may change them before it joins.
_FOLDER = _folder()
_NAME = sys.argv[0] if sys.argv else ""
_ARGUMENTS = sys.argv[1:]


def launch(describe: Callable[[], str | None] = lambda: None) -> NoReturn:
    """Replaces this process by `paceline run` of the same program.

    The description by `describe` is passed on, so that the program need not be started again for it.
    """
    if "_pytest.runner" in sys.modules and "PYTEST_CURRENT_TEST" in os.environ:
        from .errors import PacelineError

        raise PacelineError(
            "join() was called in a test of pytest, and a job starts its program anew for each worker; let the test "
            'start the script: subprocess.run(["paceline", "run", "train.py"], check=True)'
        )
    program = own_command()
    executable = find_executable()
    if executable is None:
        _stop(
            "the executable `paceline` is not beside this Python, in the package or in PATH; set PACELINE to its path"
        )
    command = [executable, "run", "--python", sys.executable, *program, "--", *own_arguments()]
    if _is_watched():
        print(
            "paceline: the debugger or profiler of this process ends here, as each worker starts the script anew; "
            "start it in the script, before the loop over the job",
            file=sys.stderr,
        )
    _pass_options_on()
    _pass_on(describe())
    _release()
    _flush()
    try:
        os.chdir(_FOLDER)  # the program goes where it likes once more
        os.execvp(executable, command)
    except OSError as error:
        _stop(f"cannot start {executable}: {error.strerror}")


def leave_at_once(status: int = 0) -> NoReturn:
    """Ends a program whose model is not trained, without its `finally:` parts and what it has in atexit.

    These may write the model over a file that the program wrote before.
    """
    _release()
    _flush()
    os._exit(status)


def _is_watched() -> bool:
    """Whether a debugger, a profiler or a measurement of coverage has this process."""
    monitoring: Any = getattr(sys, "monitoring", None)  # Python 3.12
    numbers = () if monitoring is None else (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID, monitoring.PROFILER_ID)
    tools = [monitoring.get_tool(number) for number in numbers]
    return sys.gettrace() is not None or sys.getprofile() is not None or any(tools)


def _pass_options_on() -> None:
    """Options that Python was given, for the processes in which the program is started again."""
    said = {
        "PYTHONOPTIMIZE": sys.flags.optimize,
        "PYTHONDEVMODE": int(sys.flags.dev_mode),
        "PYTHONUTF8": sys.flags.utf8_mode,
    }
    os.environ.update({name: str(value) for name, value in said.items() if value})
    if sys.warnoptions:
        os.environ["PYTHONWARNINGS"] = ",".join(sys.warnoptions)


def _flush() -> None:
    # A program may have put an object of its own before a stream, which passes no flush() on.
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]


def _release() -> None:
    """Ends this program's processes and removes its temporary folders, as the end of Python would.

    exec() does none of that, and the program makes them again when it is started again. What it has in atexit
    is left out: that may be for the end of a training.
    """
    with contextlib.suppress(ValueError):  # another thread than the main one may set no handlers
        # Clusters warn by these signals, which would end a process without a handler before it has one.
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        # A data loader raises an exception in this handler when one of its processes is killed.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)  # its handler is lost, and the signal would end `paceline run`
    children = sys.modules.get("multiprocessing.process")
    if children is not None:
        for child in children.active_children():
            _end(child)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._exit_function()  # such as for managers
    weakref.finalize._exitfunc()  # type: ignore[attr-defined]  # such as for tempfile.TemporaryDirectory


def _end(child: BaseProcess) -> None:
    child.terminate()
    child.join(_END_S)
    if child.exitcode is None:
        child.kill()
        child.join()


def _pass_on(said: str | None) -> None:
    os.environ.pop(VARIABLE, None)
    if said is None:
        return
    # Without memory for it, or with a Python that does not know such files, the program is asked again.
    with contextlib.suppress(OSError, AttributeError):
        file = os.memfd_create("paceline-said", 0)  # which the executable has open
        left = memoryview(said.encode("utf-8", "replace"))
        while left:
            left = left[os.write(file, left) :]
        os.environ[VARIABLE] = str(file)


def own_command() -> list[str]:
    """The words that start this process's program again, between Python and its arguments."""
    main = sys.modules.get("__main__")
    path: str | None = getattr(main, "__file__", None)
    if not hasattr(sys, "ps1") and sys.argv[:1] in (["-c"], ["-"], [""]) and (path is None or path == "<stdin>"):
        _stop(
            "this program came from `python -c` or from standard input, and a job starts its script anew for each "
            "worker; write the program to a file and start it with `paceline run FILE`"
        )
    if path is not None and _is_pipe(path):
        _stop(
            f"this program came from {path}, which can be read only once, and a job starts its script anew for each "
            "worker; write the program to a file and start it with `paceline run FILE`"
        )
    if hasattr(sys, "ps1") or path is None or _in_notebook():
        _stop(
            "join() was called in an interactive interpreter, and a job starts its script anew for each worker; "
            "write the program to a file and start it with `paceline run FILE`"
        )
    spec = getattr(main, "__spec__", None)
    if spec is None:
        return [os.path.join(_FOLDER, path)]
    if spec.name == "__main__":  # a folder or an archive with __main__.py
        return [os.path.join(_FOLDER, path if os.path.isfile(path) else sys.argv[0])]
    if _NAME.endswith(".py") and _is_other_file(_NAME, path):  # the module runs a script: python -m cProfile train.py
        return [os.path.join(_FOLDER, _NAME)]
    return ["-m", spec.name.removesuffix(".__main__")]


def _is_other_file(name: str, path: str) -> bool:
    named, other = os.path.join(_FOLDER, name), os.path.join(_FOLDER, path)
    return os.path.isfile(named) and not (os.path.exists(other) and os.path.samefile(named, other))


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this program. A plain script may import ipykernel too, with a library."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return "ipykernel" in sys.modules and get_ipython is not None and get_ipython() is not None


def _is_pipe(path: str) -> bool:
    """Whether it is `/dev/stdin`, or a `<(command)` of a shell."""
    if path.startswith(("/dev/stdin", "/dev/fd/", "/proc/self/")):
        return True
    try:
        mode = os.stat(os.path.join(_FOLDER, path)).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def own_arguments() -> list[str]:
    """The arguments of this process's program; own_folder() is where it was started."""
    return list(_ARGUMENTS)


def own_folder() -> str:
    return _FOLDER


def in_child_process() -> bool:
    """Whether this is a child of multiprocessing, which has imported the script again, or is importing it."""
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return False
    if multiprocessing.parent_process() is not None:
        return True
    # Spawned children and fork servers import it under this name before they know their parent. In other processes
    # the name is an alias.
    return getattr(sys.modules.get("__mp_main__"), "__name__", None) == "__mp_main__"


def in_childs_own_work() -> bool:
    """Whether a child of multiprocessing does what it was started for, and no longer imports the script for that."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return False
    return not getattr(processes.current_process(), "_inheriting", False)


def find_executable() -> str | None:
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
    if hasattr(sys, "ps1") or _in_notebook():
        from .errors import PacelineError

        raise PacelineError(line)
    raise SystemExit(2)
