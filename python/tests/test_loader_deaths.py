"""The words for a loader process that has died."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from paceline.errors import PacelineError
from paceline.loader_deaths import LoaderDeaths


@pytest.mark.parametrize(
    "code, says",
    [
        (-signal.SIGBUS, r"was killed \(Bus error\); /dev/shm is full or too small .*--shm-size=8g, or fewer"),
        (-signal.SIGKILL, r"was killed \(Killed\); if neither .* memory was short: give join\(\) fewer num_workers"),
        (None, "has died; if neither"),
    ],
)
def test_what_may_have_killed_it(code: int | None, says: str) -> None:
    deaths = LoaderDeaths.__new__(LoaderDeaths)
    deaths._watched = []
    deaths._processes = [SimpleNamespace(pid=7, exitcode=code, is_alive=lambda: False)]
    with pytest.raises(PacelineError, match=f"the loader process 7 of this program {says}"):
        deaths.check()
