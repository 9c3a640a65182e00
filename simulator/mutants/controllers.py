"""Mutants of the controller: its records and answers; and of the timers of raft."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.serving.forwarding import Forwarding
from metadata.records import ConfigRecord, PartitionRecord
from network.peers import Failure
from quorum_controller.controller import Controller
from quorum_controller.result import Draft, Output
from raft.config import RaftConfig
from simulator.campaign.draw import Options
from simulator.mutants.registry import SHORT, Mutant, Patches
from wire.api_keys import DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS

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


def _no_check_quorum(patches: Patches) -> None:
    """The time-out of check quorum never comes."""
    patches.method(RaftConfig, "check_quorum_ms", lambda _: lambda _: NEVER_MS)


def _no_jitter(patches: Patches) -> None:
    """The drawn election time-out is the configured one."""

    def make(_: Original) -> Original:
        return lambda self, _: self.election_timeout_ms

    patches.method(RaftConfig, "draw_election_timeout_ms", make)


def _answers_api_at_once(api_key: int) -> Callable[[Patches], None]:
    """Requests of one kind are answered before their records are committed."""

    def patch(patches: Patches) -> None:
        def make(original: Original) -> Original:
            def submit(self: Controller, request: Any, now_ms: int, wall_ms: int) -> Output:
                output: Output = original(self, request, now_ms, wall_ms)
                parked = [each for batch in self._batches for each in batch.parked]
                for each in parked:
                    if each.api_key == api_key:
                        self._answer(each, each.response, output)
                return output

            return submit

        patches.method(Controller, "submit", make)

    return patch


def _resigns_silently(patches: Patches) -> None:
    """A controller that resigns answers none of the waiting requests."""

    def make(original: Original) -> Original:
        def resign(self: Controller, error: Any = None) -> Output:
            output: Output = original(self, error)
            output.answers.clear()
            return output

        return resign

    patches.method(Controller, "resign", make)


def _writes_configs_twice(patches: Patches) -> None:
    """Every change of a config becomes two equal records."""

    def make(original: Original) -> Original:
        def emit(self: Draft, record: Any) -> None:
            original(self, record)
            if type(record) is ConfigRecord:
                original(self, record)

        return emit

    patches.method(Draft, "emit", make)


def _omits_last_partition(patches: Patches) -> None:
    """A topic of two partitions is written without the second."""

    def make(original: Original) -> Original:
        def emit(self: Draft, record: Any) -> None:
            is_last = type(record) is PartitionRecord and (
                record.partition_id == Options().partition_count - 1
            )
            if not is_last:
                original(self, record)

        return emit

    patches.method(Draft, "emit", make)


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
        number=38,
        name="deletes-at-once",
        text="DeleteTopics is answered before its records are committed",
        expected=("I12",),
        seeds_max=100,
        patch=_answers_api_at_once(DELETE_TOPICS),
    ),
    Mutant(
        number=39,
        name="configures-at-once",
        text="IncrementalAlterConfigs is answered before its records are committed",
        expected=("I12",),
        seeds_max=100,
        patch=_answers_api_at_once(INCREMENTAL_ALTER_CONFIGS),
    ),
    Mutant(
        number=43,
        name="resigns-silently",
        text="a controller that resigns answers none of the waiting requests",
        expected=("I14",),
        seeds_max=100,
        patch=_resigns_silently,
        options=replace(SHORT, faults=("depose_leader",), node_count=3),
    ),
    Mutant(
        number=51,
        name="writes-configs-twice",
        text="a change of a config becomes two equal records",
        expected=("I12",),
        seeds_max=50,
        patch=_writes_configs_twice,
    ),
    Mutant(
        number=60,
        name="omits-last-partition",
        text="CreateTopics writes no record of the last partition",
        expected=("I12",),
        seeds_max=50,
        patch=_omits_last_partition,
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
        seeds_max=300,
        patch=_no_jitter,
        # With the lookups of later draws, more seeds are needed than the budget has.
        options=replace(SHORT, faults=("depose_leader", "partition"), node_count=4, draws=2),
    ),
)
