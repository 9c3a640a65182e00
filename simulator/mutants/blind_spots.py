"""Mutants that no check found before a review: of publications, records, pre-votes, sessions."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from kernel.kernel import Kernel
from kernel.quorum.metadata_state import MetadataState
from metadata.loader import CommittedBatch
from metadata.records import ConfigRecord, PartitionRecord
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.result import Draft
from raft import initial_role, vote
from raft.roles import Follower, Leader, Role, Unattached
from raft.state import RaftState
from simulator.campaign.draw import Options
from simulator.mutants.registry import QUARREL, SHORT, Mutant, Patches
from storage.flushed_end_file import FlushedEndFile
from storage.vfs import Vfs
from wire.types import Offset

Original = Callable[..., Any]
_PUBLISHED_MAX: Final = 12


def _stops_publishing(patches: Patches) -> None:
    """A process publishes only the first twelve of the changes that it applies."""

    def make(original: Original) -> Original:
        def publish(self: Kernel, image: Any, delta: Any) -> None:
            count = vars(self)["_published_count"] = vars(self).get("_published_count", 0) + 1
            if count <= _PUBLISHED_MAX:
                original(self, image, delta)

        return publish

    patches.method(Kernel, "_publish", make)


def _writes_configs_twice(patches: Patches) -> None:
    """Every change of a config becomes two equal records."""

    def make(original: Original) -> Original:
        def emit(self: Draft, record: Any) -> None:
            original(self, record)
            if type(record) is ConfigRecord:
                original(self, record)

        return emit

    patches.method(Draft, "emit", make)


def _observers_forget_epochs(patches: Patches) -> None:
    """A node that is no voter writes no quorum-state."""

    def make(original: Original) -> Original:
        def persist_election(self: RaftState) -> None:
            if self.is_voter:
                original(self)

        return persist_election

    patches.method(RaftState, "persist_election", make)


def _grants_pre_votes_to_all(patches: Patches) -> None:
    """Every replica but the leader grants every pre-vote."""

    def make(_: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            del is_up_to_date
            return not isinstance(state.role, Leader)

        return grant

    patches.function(vote, "_grant_pre_vote", make)


def _grants_pre_votes_to_any_log(patches: Patches) -> None:
    """A pre-vote is granted whatever the log of the replica that asks."""

    def make(original: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            del is_up_to_date
            granted: bool = original(state, is_up_to_date=True)
            return granted

        return grant

    patches.function(vote, "_grant_pre_vote", make)


def _grants_pre_votes_while_led(patches: Patches) -> None:
    """A follower in contact with its leader grants pre-votes as if it were not."""

    def make(_: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            return is_up_to_date and not isinstance(state.role, Leader)

        return grant

    patches.function(vote, "_grant_pre_vote", make)


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


def _applies_configs_twice(patches: Patches) -> None:
    """A node applies every record of a config that it reads from its log two times."""

    def make(original: Original) -> Original:
        def apply_from_log(self: MetadataState, high_watermark: Offset) -> None:
            read = self._read_batches
            self._read_batches = lambda content: map(_with_configs_twice, read(content))
            try:
                original(self, high_watermark)
            finally:
                self._read_batches = read

        return apply_from_log

    patches.method(MetadataState, "_apply_from_log", make)


def _with_configs_twice(batch: CommittedBatch) -> CommittedBatch:
    twice = ((r, r) if type(r) is ConfigRecord else (r,) for r in batch.records)
    return replace(batch, records=tuple(record for each in twice for record in each))


def _forgets_its_leader(patches: Patches) -> None:
    """A follower is unattached after a restart, with its vote."""

    def make(original: Original) -> Original:
        def first_role(*given: Any) -> Role:
            role: Role = original(*given)
            if not isinstance(role, Follower):
                return role
            return Unattached(
                epoch=role.epoch,
                voted_key=role.voted_key,
                election_deadline_ms=role.fetch_deadline_ms,
            )

        return first_role

    patches.function(initial_role, "initial_role", make)


def _ends_sessions_early(patches: Patches) -> None:
    """A controller waits a third of the session time-out for a broker."""

    def make(original: Original) -> Original:
        def begin(self: Liveness, session_timeout_ms: int, now_ms: int) -> None:
            original(self, session_timeout_ms // 3, now_ms)

        return begin

    patches.method(Liveness, "__init__", make)


def _starts_unread(patches: Patches) -> None:
    """A file of the flushed end that cannot be read is taken for one without a value."""

    def make(original: Original) -> Original:
        def begin(self: FlushedEndFile, vfs: Vfs, partition_directory: str) -> None:
            with suppress(OSError):
                original(self, vfs, partition_directory)

        return begin

    patches.method(FlushedEndFile, "__init__", make)


BLIND_SPOTS: Final = (
    Mutant(
        number=50,
        name="stops-publishing",
        text="a node goes on applying committed records and stops publishing them",
        expected=("I17",),
        seeds_max=50,
        patch=_stops_publishing,
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
        number=52,
        name="observers-forget-epochs",
        text="a node that is no voter does not write its epoch to quorum-state",
        expected=("I2",),
        seeds_max=50,
        patch=_observers_forget_epochs,
    ),
    Mutant(
        number=57,
        name="grants-pre-votes-to-all",
        text="a node that does not lead grants every pre-vote",
        expected=("I4",),
        seeds_max=50,
        patch=_grants_pre_votes_to_all,
    ),
    Mutant(
        number=58,
        name="grants-pre-votes-to-any-log",
        text="a pre-vote is granted without a look at the candidate's log",
        expected=("I4",),
        seeds_max=100,
        patch=_grants_pre_votes_to_any_log,
        options=QUARREL,
    ),
    Mutant(
        number=59,
        name="grants-pre-votes-while-led",
        text="a follower in contact with its leader grants pre-votes",
        expected=("I4",),
        seeds_max=100,
        patch=_grants_pre_votes_while_led,
        options=QUARREL,
    ),
    Mutant(
        number=60,
        name="omits-last-partition",
        text="CreateTopics writes no record of the last partition",
        expected=("I12",),
        seeds_max=50,
        patch=_omits_last_partition,
    ),
    Mutant(
        number=61,
        name="applies-configs-twice",
        text="a node applies the records of configs twice",
        expected=("I8",),
        seeds_max=50,
        patch=_applies_configs_twice,
    ),
    Mutant(
        number=62,
        name="forgets-its-leader",
        text="a restarted follower does not know its leader",
        expected=("I16",),
        seeds_max=50,
        patch=_forgets_its_leader,
    ),
    Mutant(
        number=63,
        name="ends-sessions-early",
        text="a broker is fenced after a third of the session time-out",
        expected=("I14",),
        seeds_max=50,
        patch=_ends_sessions_early,
    ),
    Mutant(
        number=64,
        name="starts-unread",
        text="a start goes on without the record of the flushed end that it could not read",
        expected=("I18",),
        seeds_max=50,
        patch=_starts_unread,
        options=replace(SHORT, faults=("start_read_error",)),
    ),
)
