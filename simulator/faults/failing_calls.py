"""Calls of a running process that fail: no memory for a buffer, or a sector that cannot be read.

The asyncio driver treats MemoryError and OSError as any exception of a step: the process ends with
exit code 1, nothing of the step is sent, what the step had written is in the page cache
(node/driver.py). The buffers are those that grow with the requests of peers: bytes that arrive,
requests, records and pieces of snapshots that are read for an answer or to be applied.
"""

import errno
from collections.abc import Callable
from typing import Any

from kernel.kernel import Kernel
from simulator.cluster.instance_methods import replace_method

WITHOUT_MEMORY = "node_stopped_without_memory"
READ_ERROR = "node_stopped_by_read_error"


def fail_allocation(
    kernel: Kernel, countdown: int, is_on: Callable[[], bool], hit: Callable[[str], None]
) -> None:
    """Make a later allocation of a running process fail.

    Args:
        kernel: the process's.
        countdown: number of the buffer that gets no memory, from 1 on; every second time the
            buffer is made and the copy of it is not.
        is_on: called then; False: it gets its memory, and all later ones.
        hit: called with `WITHOUT_MEMORY` when it fails.
    """

    def error(name: str) -> MemoryError:
        hit(WITHOUT_MEMORY)
        return MemoryError(f"injected into {name}")

    calls = (*_reads(kernel), (kernel.connections, "received"))
    calls += ((kernel.peers, "on_bytes"), (kernel.peers, "send"))
    _replace(calls, countdown, is_on, error, is_late=countdown % 2 == 0)


def fail_read(
    kernel: Kernel, countdown: int, is_on: Callable[[], bool], hit: Callable[[str], None]
) -> None:
    """Make a later read of log or snapshots fail with EIO: a latent sector error.

    Args:
        kernel: the process's.
        countdown: number of the read, from 1 on.
        is_on: called then; False: it succeeds, and so do all later ones.
        hit: called with `READ_ERROR` when it fails.
    """

    def error(name: str) -> OSError:
        hit(READ_ERROR)
        return OSError(errno.EIO, f"injected into {name}")

    _replace(_reads(kernel), countdown, is_on, error, is_late=False)


def _reads(kernel: Kernel) -> tuple[tuple[Any, str], ...]:
    return ((kernel.log, "read"), (kernel.snapshot_files, "read_chunk"))


def _replace(
    calls: tuple[tuple[Any, str], ...],
    countdown: int,
    is_on: Callable[[], bool],
    error: Callable[[str], Exception],
    *,
    is_late: bool,
) -> None:
    """Make the call of this number, of all of them together, raise; late: after it is made."""
    left = [countdown]

    def replaced(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            fails = left[0] == 0 and is_on()
            if fails and not is_late:
                raise error(name)
            made = call(*args, **kwargs)
            if fails:
                raise error(name)
            return made

        return counted

    for owner, name in calls:
        replace_method(owner, name, replaced(getattr(owner, name), name))
