"""Allocations that fail: a node that gets no memory for a buffer ends.

The asyncio driver takes MemoryError as any exception of a step: the process ends with exit code 1,
nothing of the step is sent, what the step had written is in the page cache (node/driver.py). The
buffers are those that grow with what peers ask for: bytes that arrive, requests, records and pieces
of snapshots that are read for an answer or to be applied.
"""

from collections.abc import Callable
from typing import Any

from kernel.kernel import Kernel

MARK = "node_stopped_without_memory"


def fail_allocation(
    kernel: Kernel, countdown: int, is_on: Callable[[], bool], hit: Callable[[str], None]
) -> None:
    """Make a later allocation of a running process fail.

    Args:
        kernel: of the process.
        countdown: which of its next buffers it gets no memory for, from 1 on; every second time the
            buffer is made and the copy of it is not.
        is_on: asked then; False: it gets its memory, and all later ones.
        hit: told of `MARK` when it fails.
    """
    left = [countdown]
    for owner, name in _makers(kernel):
        setattr(owner, name, _failing(getattr(owner, name), name, left, is_on, hit))


def _makers(kernel: Kernel) -> tuple[tuple[Any, str], ...]:
    writer = kernel.replica.writer
    return (
        (writer.log, "read"),
        (writer.snapshots, "read_chunk"),
        (kernel.connections, "received"),
        (kernel.peers, "on_bytes"),
        (kernel.peers, "send"),
    )


def _failing(
    make: Callable[..., Any],
    name: str,
    left: list[int],
    is_on: Callable[[], bool],
    hit: Callable[[str], None],
) -> Callable[..., Any]:
    is_late = left[0] % 2 == 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        fails = left[0] == 0 and is_on()
        if fails and not is_late:
            hit(MARK)
            raise MemoryError(f"injected into {name}")
        made = make(*args, **kwargs)
        if fails:
            hit(MARK)
            raise MemoryError(f"injected behind {name}")
        return made

    return failing
