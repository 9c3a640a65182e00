"""Our own mutants, of rules that former checks only seemed to check."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from kernel.kernel import Kernel
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle
from kernel.quorum.snapshots import Snapshots
from metadata.delta import MetadataDelta
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.controller import Controller
from quorum_controller.result import Output
from raft import fetch_leader, transitions, vote
from raft.effects import NotifyEffect, ShutdownComplete
from raft.messages import FetchRequest, FetchResponse
from raft.roles import Unattached
from raft.state import RaftState
from simulator.mutants.registry import QUARREL, SHORT, Mutant, Patches
from storage.log import Log
from wire.api_keys import DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS
from wire.types import Offset

Original = Callable[..., Any]


def _tracks_diverging(patches: Patches) -> None:
    """A fetch that has to truncate first counts like any other."""

    def make(original: Original) -> Original:
        def evaluate(state: RaftState, request: FetchRequest, wall_ms: int) -> FetchResponse:
            response: FetchResponse = original(state, request, wall_ms)
            is_possible = request.fetch_offset <= state.log.end_offset
            if response.diverging_epoch is not None and is_possible:
                fetch_leader._track(state, request, wall_ms)  # noqa: SLF001
            return response

        return evaluate

    patches.function(fetch_leader, "_evaluate", make)


def _answers_at_once(api_key: int) -> Callable[[Patches], None]:
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


def _names_snapshot_too_low(patches: Patches) -> None:
    """The id of a snapshot is one below its end, where that is inside a batch."""

    def make(original: Original) -> Original:
        def begin(self: Snapshots) -> None:
            state, log = self._state, self._writer.log
            image = state.loader.image
            last = image.provenance.end_offset - 1
            if log.log_start_offset <= last and _base_offset_at(log, last) < last:
                lower = replace(image.provenance, end_offset=Offset(last))
                loader = SimpleNamespace(
                    image=replace(image, provenance=lower),
                    transaction_start=state.loader.transaction_start,
                )
                vars(self)["_state"] = SimpleNamespace(loader=loader)
            try:
                original(self)
            finally:
                self._state = state

        return begin

    patches.method(Snapshots, "_begin", make)


def _base_offset_at(log: Log, offset: int) -> int:
    """Base offset of the batch that holds an offset."""
    content = log.read(Offset(offset), 1, Offset(offset + 1))
    return int.from_bytes(content[:8], "big")


def _forgets_changed_partitions(patches: Patches) -> None:
    """A delta names the partitions of new topics only."""

    def make(original: Original) -> Original:
        def on_partition_changed(self: MetadataDelta, topic_id: Any, partition_id: int) -> None:
            if topic_id in self.topics_created:
                original(self, topic_id, partition_id)

        return on_partition_changed

    patches.method(MetadataDelta, "on_partition_changed", make)


def _takes_no_snapshots(patches: Patches) -> None:
    """A snapshot that is due is not begun."""
    patches.method(Snapshots, "_begin", lambda _: lambda _: None)


def _resigns_silently(patches: Patches) -> None:
    """A controller that resigns answers none of the waiting requests."""

    def make(original: Original) -> Original:
        def resign(self: Controller, error: Any = None) -> Output:
            output: Output = original(self, error)
            output.answers.clear()
            return output

        return resign

    patches.method(Controller, "resign", make)


def _leaves_when_its_id_is_in_use(patches: Patches) -> None:
    """A broker does not wait for the session of its former process to end."""

    def make(original: Original) -> Original:
        def on_id_in_use(self: BrokerLifecycle) -> None:
            broker = self._config.broker
            limit_ms = max(broker.initial_registration_timeout_ms, broker.session_timeout_ms)
            self._id_in_use_ms = self._clock.now_ms - limit_ms
            original(self)

        return on_id_in_use

    patches.method(BrokerLifecycle, "_on_id_in_use", make)


def _never_exits(patches: Patches) -> None:
    """A process goes on after its replica has shut down."""

    def make(original: Original) -> Original:
        def on_notify(self: Kernel, effect: NotifyEffect) -> None:
            if not isinstance(effect, ShutdownComplete):
                original(self, effect)

        return on_notify

    patches.method(Kernel, "_on_notify", make)


def _sessions_never_end(patches: Patches) -> None:
    """A controller fences no silent broker."""
    for name in ("stale_broker", "next_deadline_ms"):
        patches.method(Liveness, name, lambda _: lambda *_: None)


def _resigns_into_its_epoch(patches: Patches) -> None:
    """A leader that resigns waits in its epoch like any voter; the table of raft allows it."""

    def make(_: Original) -> Original:
        def resign(state: RaftState) -> None:
            deadline_ms = state.new_election_deadline_ms()
            epoch, leader_id = state.role.epoch, state.role.leader_id
            state.become(
                Unattached(epoch=epoch, leader_id=leader_id, election_deadline_ms=deadline_ms)
            )

        return resign

    patches.function(vote, "resign", make)
    patches.function(transitions, "transition", lambda _: lambda _old, new, **_is_voter: new)


OWN: Final = (
    Mutant(
        number=37,
        name="tracks-diverging",
        text="a leader counts the fetch of a voter whose log diverges",
        expected=("I8", "I10"),
        seeds_max=100,
        patch=_tracks_diverging,
        options=QUARREL,
    ),
    Mutant(
        number=38,
        name="deletes-at-once",
        text="DeleteTopics is answered before its records are committed",
        expected=("I12",),
        seeds_max=100,
        patch=_answers_at_once(DELETE_TOPICS),
    ),
    Mutant(
        number=39,
        name="configures-at-once",
        text="IncrementalAlterConfigs is answered before its records are committed",
        expected=("I12",),
        seeds_max=100,
        patch=_answers_at_once(INCREMENTAL_ALTER_CONFIGS),
    ),
    Mutant(
        number=40,
        name="names-snapshot-too-low",
        text="a snapshot is named one offset below its end, inside a batch",
        expected=("I13",),
        seeds_max=50,
        patch=_names_snapshot_too_low,
    ),
    Mutant(
        number=41,
        name="forgets-changed-partitions",
        text="a delta lacks the changed partitions of topics that existed before it",
        expected=("I14", "I17"),
        seeds_max=50,
        patch=_forgets_changed_partitions,
    ),
    Mutant(
        number=42,
        name="takes-no-snapshots",
        text="a snapshot that is due is not begun",
        expected=("liveness",),
        seeds_max=50,
        patch=_takes_no_snapshots,
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
        number=44,
        name="leaves-when-its-id-is-in-use",
        text="a broker exits with 1 as soon as the session of its former process delays it",
        expected=("I20",),
        seeds_max=50,
        patch=_leaves_when_its_id_is_in_use,
    ),
    Mutant(
        number=45,
        name="never-exits",
        text="a process does not exit once its shutdown is complete",
        expected=("liveness",),
        seeds_max=50,
        patch=_never_exits,
        options=replace(SHORT, faults=("terminate",)),
    ),
    Mutant(
        number=46,
        name="sessions-never-end",
        text="a broker that sends no heartbeats is never fenced",
        expected=("liveness",),
        seeds_max=100,
        patch=_sessions_never_end,
    ),
    Mutant(
        number=47,
        name="resigns-into-its-epoch",
        text="a leader that resigns becomes an unattached voter of the epoch that it led",
        expected=("I16",),
        seeds_max=50,
        patch=_resigns_into_its_epoch,
    ),
)
