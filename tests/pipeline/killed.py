"""Processes that are gone before a change of the file system, as a kill leaves it."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

# Python's audit events: the moves alone, and all changes
MOVES = ("os.rename",)
CHANGES = ("open", "os.rename", "os.symlink", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")


def dies_before(at: int, work: Callable[[], object], events: Sequence[str] = CHANGES) -> bool:
    """Do some work in a process that is gone before its change number `at`; True if it was."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        writes = event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in events and writes:
            changes += 1
            if changes > at:
                os._exit(9)

    sys.addaudithook(count)
    work()
    os._exit(0)
