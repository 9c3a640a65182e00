"""Mutants of the controller, of what follows a commit, and of the timers of raft."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.serving.forwarding import Forwarding
from metadata.loader import CommittedBatch, Loader
from network.peers import Failure
from quorum_controller.controller import Controller
from quorum_controller.result import Output
from raft.config import RaftConfig
from simulator.mutants.registry import SHORT, Mutant, Patches

Original = Callable[..., Any]
NEVER_MS: Final = 1 << 40
REPEATED: Final = 10


def _does_not_revert(patches: Patches) -> None:
    """Resigning answers everybody and keeps the batches that were not committed."""

    def make(original: Original) -> Original:
        def resign(self: Controller, error: Any = None) -> Output:
            pending = self._batches
            output: Output = original(self, error)
            self._batches = pending
            return output

        return resign

    patches.method(Controller, "resign", make)


def _answers_at_once(patches: Patches) -> None:
    """Every submit answers all requests whose records wait for their commit."""

    def make(original: Original) -> Original:
        def submit(self: Controller, request: Any, now_ms: int, wall_ms: int) -> Output:
            output: Output = original(self, request, now_ms, wall_ms)
            for batch in self._batches:
                for parked in batch.parked:
                    self._answer(parked, parked.response, output)
            return output

        return submit

    patches.method(Controller, "submit", make)


def _executes_twice(patches: Patches) -> None:
    """A broker sends its last requests to every new leader, answered ones too."""

    def make(original: Original) -> Original:
        def on_envelope_answer(self: Forwarding, forward: Any, answer: Any) -> None:
            original(self, forward, answer)
            if not isinstance(answer, Failure):
                vars(self).setdefault("sent", []).append(forward)

        return on_envelope_answer

    def make_retry(original: Original) -> Original:
        def on_leader_changed(self: Forwarding) -> None:
            for forward in vars(self).pop("sent", [])[-REPEATED:]:
                again = replace(forward, answered=lambda _: None)
                again.deadline_ms = self._clock.now_ms + NEVER_MS
                self._again(again, again.last_error)
            original(self)

        return on_leader_changed

    patches.method(Forwarding, "_on_envelope_answer", make)
    patches.method(Forwarding, "on_leader_changed", make_retry)


def _publishes_part(patches: Patches) -> None:
    """The last record of a read comes with the next commit."""

    def make(original: Original) -> Original:
        def commit(self: Loader, batches: Any) -> Any:
            taken: list[CommittedBatch] = list(batches)
            held = vars(self).pop("held", ())
            if not taken:
                return original(self, taken)
            first = taken[0]
            taken[0] = replace(first, records=(*held, *first.records))
            last = taken[-1]
            if len(last.records) > 1:
                vars(self)["held"] = last.records[-1:]
                taken[-1] = replace(last, records=last.records[:-1])
            return original(self, taken)

        return commit

    patches.method(Loader, "commit", make)


def _no_check_quorum(patches: Patches) -> None:
    """The time-out of check quorum never comes."""
    patches.method(RaftConfig, "check_quorum_ms", lambda _: lambda _: NEVER_MS)


def _no_jitter(patches: Patches) -> None:
    """The drawn election time-out is the configured one."""

    def make(_: Original) -> Original:
        return lambda self, _: self.election_timeout_ms

    patches.method(RaftConfig, "draw_election_timeout_ms", make)


CONTROLLERS: Final = (
    Mutant(
        number=21,
        name="does-not-revert",
        text="a controller that resigns keeps what was not committed",
        expected=("I14",),
        seeds_max=200,
        patch=_does_not_revert,
    ),
    Mutant(
        number=22,
        name="answers-at-once",
        text="a request is answered before its records are committed",
        expected=("I12",),
        seeds_max=100,
        patch=_answers_at_once,
    ),
    Mutant(
        number=29,
        name="executes-twice",
        text="a request that was answered is executed again after a broken connection",
        expected=("I12", "linearizability"),
        seeds_max=300,
        patch=_executes_twice,
    ),
    Mutant(
        number=32,
        name="publishes-part",
        text="a batch is published without its last record",
        expected=("I13", "I14", "I17"),
        seeds_max=200,
        patch=_publishes_part,
    ),
)

TIMERS: Final = (
    Mutant(
        number=30,
        name="no-check-quorum",
        text="a leader from which no voter fetches never resigns",
        expected=("liveness",),
        seeds_max=50,
        patch=_no_check_quorum,
        options=replace(SHORT, faults=("partition", "one_way"), node_count=3),
    ),
    Mutant(
        number=31,
        name="no-jitter",
        text="every election time-out is the same",
        expected=("liveness",),
        seeds_max=100,
        patch=_no_jitter,
        # With the lookups of later draws, more seeds are needed than the budget has.
        options=replace(SHORT, faults=("depose_leader",), node_count=5, draws=2),
    ),
)
