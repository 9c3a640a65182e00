"""Work of stages in tests: processes of their own import this, so it imports little."""

import os
import signal
from pathlib import Path


def doubled(number: int) -> int:
    return 2 * number


def killed_once(marker: str, number: int) -> int:
    """Its process dies at the first try of item 1; `marker` says that it has."""
    if number == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def killed_always(_number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def refused(number: int) -> int:
    if number == 1:
        raise ValueError(f"item {number} in {os.getpid()}")
    return number


def endless(marker: str, _number: int) -> int:
    """Write the id of its process, and wait for its end."""
    Path(marker).write_text(str(os.getpid()))
    signal.pause()
    return 0
