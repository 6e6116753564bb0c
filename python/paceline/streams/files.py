"""The files of a source."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from ..errors import PacelineError

Files = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def find_files(files: Files, endings: tuple[str, ...] = ()) -> list[str]:
    """The paths: those of a list in its order, those of a folder or a pattern sorted by their names.

    endings: of the files of a folder, those that count; without any, all.
    """
    if not isinstance(files, (str, os.PathLike)):
        found = [os.fspath(one) for one in files]
        if not found:
            raise PacelineError("the list of files is empty; name at least one")
        return found
    path = os.fspath(files)
    if os.path.isdir(path):
        inside = (one for one in sorted(Path(path).rglob("*")) if one.is_file() and not one.name.startswith("."))
        found = [str(one) for one in inside if not endings or one.name.endswith(endings)]
        wanted = f" with a name that ends in {' or '.join(endings)}" if endings else ""
        if not found:
            raise PacelineError(f"the folder {path} has no file{wanted}; name another folder, a pattern or a list")
        return found
    if os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise PacelineError(f"there is no file {path}; name a file, a folder, a pattern or a list")
    return found
