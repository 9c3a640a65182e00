"""Legal but unlikely behaviour, switched on for a quarter of the seeds each, until faults stop.

FoundationDB's "buggify" sites, set from outside: events and effects of a core are changed on the
way, so production code has none. The other sites are settings (campaign/draw.py): fetches of one
batch, tiny segments, snapshots every few records, late flush events, late BeginQuorumEpoch, early
time-outs of requests. A seed may also change how steps are made (simulator/cluster/event_loop.py).
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from typing_extensions import override

from raft.core import RaftCore
from raft.effects import Effects, SendRequest
from raft.events import Event, RequestFailed, ResponseReceived
from raft.messages import BeginQuorumEpochRequest, VoteRequest, VoteResponse
from simulator.campaign.draw import Settings
from simulator.campaign.probes import Probes
from simulator.cluster.instance_methods import replace_method
from wire.errors import ErrorCode

OTHERS_AFTER_MS: Final = 1_000
"""Time for which a minimal quorum is asked, then another one."""

_STEERED_MAX: Final = 100_000
"""Draws from more values than this (ids) stay random."""


class ExtremeRandom(Random):
    """Random that draws first or last values while it is on: extreme election time-outs."""

    is_on: Callable[[], bool] = staticmethod(lambda: False)

    @override
    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Draw the first or last of a range; any of it when off or when there are too many."""
        first, end = (0, start) if stop is None else (start, stop)
        if step == 1 and 1 < end - first <= _STEERED_MAX and self.is_on():
            return first if self.random() < 0.5 else end - 1
        return super().randrange(start, stop, step)


class Buggify:
    """Buggify sites of one run.

    Args:
        settings: the sites that are on.
        probes: marks to hit.
        is_over: true when faults have stopped.
    """

    def __init__(self, settings: Settings, probes: Probes, is_over: Callable[[], bool]) -> None:
        self._settings = settings
        self._probes = probes
        self._is_over = is_over
        self._lost: set[tuple[int, int]] = set()

    def random(self, seed: int) -> Random:
        """Make the random generator of a new process."""
        if not self._settings.has_extreme_timeouts:
            return Random(seed)  # noqa: S311 - simulated chance
        found = ExtremeRandom(seed)
        found.is_on = self._is_extreme
        return found

    def _is_extreme(self) -> bool:
        if self._is_over():
            return False
        self._probes.hit("election_timeout_extreme")
        return True

    def attach(self, number: int, core: RaftCore) -> None:
        """Change the events and effects of a core from now on."""
        settings = self._settings
        loses_first_vote = settings.loses_first_vote
        asks_minimal_quorum = settings.asks_minimal_quorum
        if not loses_first_vote and not asks_minimal_quorum:
            return
        step: Callable[[Event, int], Effects] = core.step

        def changed(event: Event, now_ms: int) -> Effects:
            if loses_first_vote and type(event) is ResponseReceived and not self._is_over():
                event = self._without_first_vote(number, core, event)
            effects = step(event, now_ms)
            if asks_minimal_quorum and len(effects.send) > 1 and not self._is_over():
                self._ask_few(core, effects, now_ms)
            return effects

        replace_method(core, "step", changed)

    def _without_first_vote(self, number: int, core: RaftCore, event: ResponseReceived) -> Any:
        """Lose the response to the first vote of every epoch, granted or not."""
        response, key = event.response, (number, int(core.epoch))
        if type(response) is not VoteResponse or response.error_code or key in self._lost:
            return event
        self._lost.add(key)
        self._probes.hit("first_vote_response_lost")
        return RequestFailed(
            destination_id=event.destination_id,
            correlation_id=event.correlation_id,
            error_code=ErrorCode.network_exception.value,
        )

    def _ask_few(self, core: RaftCore, effects: Effects, now_ms: int) -> None:
        """Send Vote and BeginQuorumEpoch to as many others as a majority needs; later to others."""
        others = [number for number in core.voters.ids if number != core.config.node_id]
        needed = (len(others) + 1) // 2
        if needed == 0:
            return
        first = now_ms // OTHERS_AFTER_MS % len(others)
        asked = {(others * 2)[first + n] for n in range(needed)}
        kept = [effect for effect in effects.send if not _is_beyond(effect, asked)]
        if len(kept) < len(effects.send):
            self._probes.hit("minimal_quorum_asked")
            effects.send[:] = kept


def _is_beyond(effect: Any, asked: set[Any]) -> bool:
    return (
        type(effect) is SendRequest
        and type(effect.request) in (VoteRequest, BeginQuorumEpochRequest)
        and effect.destination_id not in asked
    )
