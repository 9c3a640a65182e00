"""Recording of a run while it runs, for its page (simulator/campaign/page.py draws it)."""

from typing import Any, Final

from raft.core import RaftCore
from simulator.cluster.frames import FrameReader
from simulator.cluster.network import Direction, Pipe
from simulator.cluster.requests import Operation
from simulator.faults.decision import Decision
from simulator.faults.impact import Impact
from wire.api_table import api_name

UNKNOWN: Final = "unknown"

MESSAGES_MAX: Final = 40_000
"""A page with more is slow; later ones are counted and not drawn."""

Change = tuple[int, Any]
"""Time in microseconds, new value."""


class Recording:
    """Changes per node, messages, faults; times are virtual microseconds."""

    def __init__(self) -> None:
        self.roles: dict[int, list[tuple[int, str, int]]] = {}
        """Node -> (time, role or `down`, epoch)."""
        self.high_watermarks: dict[int, list[tuple[int, int]]] = {}
        self.log_ends: dict[int, list[tuple[int, int]]] = {}
        self.ends: list[tuple[int, int, str]] = []
        """(time, node, reason for the end of its process)."""
        self.messages: list[tuple[int, int, int, int, int, str, bool]] = []
        """(sent, due, source, target, bytes, APIs, True for a request)."""
        self.operations: list[Operation] = []
        """Operations of clients; the list of the workload."""
        self._frames: dict[Pipe, FrameReader] = {}
        self.messages_left_out = 0
        self.faults: list[tuple[Decision, Impact | None]] = []
        """Faults with their impact (simulator/faults/impact.py)."""
        self._last: dict[int, tuple[object, ...]] = {}

    def after_step(self, now_us: int, number: int, core: RaftCore) -> None:
        """Record what changed."""
        role = core.role
        state = (type(role), role.epoch, core.high_watermark, core.log_end_offset)
        last = self._last.get(number)
        if state == last:
            return
        self._last[number] = state
        if last is None or state[:2] != last[:2]:
            self.roles.setdefault(number, []).append(
                (now_us, type(role).__name__.lower(), int(role.epoch))
            )
        if core.high_watermark is not None:
            _add(self.high_watermarks.setdefault(number, []), now_us, int(core.high_watermark))
        _add(self.log_ends.setdefault(number, []), now_us, int(core.log_end_offset))

    def struck(self, decision: Decision, impact: Impact | None) -> None:
        """Record a fault and its impact, None for nothing."""
        self.faults.append((decision, impact))

    def ended(self, now_us: int, number: int, reason: str) -> None:
        """Record the end of a process."""
        last = self._last.pop(number, None)
        epoch = int(last[1]) if last is not None and isinstance(last[1], int) else 0
        self.roles.setdefault(number, []).append((now_us, "down", epoch))
        self.ends.append((now_us, number, reason))

    def sent(self, now_us: int, pipe: Pipe, direction: Direction, due_us: int, data: bytes) -> None:
        """Record bytes that leave."""
        is_request = direction is pipe.to_server
        kind = self._kind(pipe, data, is_request=is_request)
        if len(self.messages) < MESSAGES_MAX:
            self.messages.append((now_us, due_us, *direction.link, len(data), kind, is_request))
        else:
            self.messages_left_out += 1

    def _kind(self, pipe: Pipe, data: bytes, *, is_request: bool) -> str:
        """APIs of the frames, each once; a response has that of the request it answers."""
        frames = self._frames.setdefault(pipe, FrameReader())
        keys = [part.api_key for part in frames.parts(data, to_server=is_request)]
        return ", ".join(UNKNOWN if key is None else api_name(key) for key in dict.fromkeys(keys))


def _add(changes: list[tuple[int, int]], now_us: int, value: int) -> None:
    if not changes or changes[-1][1] != value:
        changes.append((now_us, value))
