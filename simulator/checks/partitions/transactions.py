"""Invariant of transactions: D4, over what clients did, what consumers read, and all replicas.

    D4  a reader of what is committed sees all records of a transaction or none, in every partition;
        none of one that nobody has asked to commit, that was aborted or whose commit was refused;
        all of one whose commit was acknowledged. A producer id has an epoch for one process, the
        epochs of a transactional id rise, and its states follow each other as the table says. No
        record is of an older epoch than the one before it, or than a marker before it. The last
        stable offset of a replica is the begin of the first transaction without a marker below the
        high watermark, else the high watermark; at a leader it never goes back.

Where all replicas in sync of one of the partitions lost their power at once, decisions may be lost,
and the run says nothing about D4 from then on.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from metadata.image import Image
from replication.leader.leadership import Leadership
from replication.partition import Partition
from simulator.checks.partitions.record_logs import StoredBatch
from simulator.checks.partitions.transaction_log import wrong_in_log
from simulator.checks.partitions.transaction_view import TransactionView, view_of
from simulator.checks.violation import Violation
from wire.types import TopicIdPartition

if TYPE_CHECKING:
    from simulator.checks.partitions.records import RecordChecks
    from simulator.records.consumers import RecordConsumer
    from simulator.records.machine import RecordsMachine
    from simulator.records.requests import Producer

TRANSACTIONAL: Final = "transactional"
"""Topic that transactions write to."""
STATE_TOPIC: Final = "__transaction_state"
Place = tuple[bytes, int]


class Outcome(Enum):
    """The end of a transaction, as its client knows it."""

    UNASKED = "nobody asked to commit it"
    ASKED = "maybe committed"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Written:
    """A transaction as its client knows it.

    Args:
        label: for texts.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.values: dict[int, list[bytes]] = {}
        """By partition; a client asks to commit when all are acknowledged."""
        self.outcome = Outcome.UNASKED

    @property
    def may_be_seen(self) -> bool:
        """True unless it was aborted, refused, or nobody has asked to commit it."""
        return self.outcome in (Outcome.ASKED, Outcome.COMMITTED)

    def send(self, number: int, values: Sequence[bytes]) -> None:
        """Note values that are about to be sent."""
        self.values.setdefault(number, []).extend(values)

    def ask_commit(self) -> None:
        """Note that the client is about to ask for the commit."""
        assert self.outcome is Outcome.UNASKED, f"{self.label}: {self.outcome=}"
        self.outcome = Outcome.ASKED

    def end(self, *, is_commit: bool) -> None:
        """Note that the end was acknowledged, or that the commit was refused for sure."""
        assert self.outcome in (Outcome.UNASKED, Outcome.ASKED), f"{self.label}: {self.outcome=}"
        self.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED


class TransactionChecks:
    """The checks of the transactional topic of a world.

    Args:
        machines: of the world.
        checks: of its records, which know what may be lost.
        image: gives the newest committed image.
    """

    def __init__(
        self,
        machines: "Mapping[int, RecordsMachine]",
        checks: "RecordChecks",
        image: Callable[[], Image],
    ) -> None:
        self._machines = machines
        self._checks = checks
        self._image = image
        self.hit = checks.hit
        self._owners: dict[bytes, Written] = {}
        self._all: list[Written] = []
        self._processes: dict[tuple[str, int, int], int] = {}
        """Transactional id, producer id and epoch -> process that has them."""
        self._read: dict[int, dict[int, bytes | None]] = {}
        """By partition and offset: what consumers saw there, None for what they did not see."""
        self._stable: dict[tuple[int, int, Place], tuple[int, int]] = {}
        """(node, incarnation, partition) -> leader epoch, last stable offset."""
        self._opened: set[tuple[int, int, Place]] = set()
        """Places whose log was checked when it was opened."""

    # ---- what may be lost ----------------------------------------------------------------------

    @property
    def is_excused(self) -> bool:
        """True if decisions or records of transactions may be lost."""
        return any(self._checks.may_have_lost(key) for key in self._keys(STATE_TOPIC)) or any(
            self._checks.may_have_lost(key) for key in self._keys(TRANSACTIONAL)
        )

    def _keys(self, topic: str) -> list[TopicIdPartition]:
        image = self._image()
        topic_id = image.topic_id_by_name.get(topic)
        if topic_id is None:
            return []
        return [(topic_id, number) for number in sorted(image.topics[topic_id].partitions)]

    def _break(self, text: str) -> None:
        if self.is_excused:
            self.hit("transactions_excused")
            return
        raise Violation("D4", text)

    # ---- what clients do and see ---------------------------------------------------------------

    def begin(self, label: str) -> Written:
        """Note a transaction of a client."""
        written = Written(label)
        self._all.append(written)
        return written

    def owned_by(self, written: Written, values: Sequence[bytes]) -> None:
        """Note the transaction of values."""
        assert self._owners.keys().isdisjoint(values), f"{values=} are not new"
        self._owners.update(dict.fromkeys(values, written))

    def initialized(self, transactional_id: str, process: int, producer: "Producer") -> None:
        """Note the producer id and epoch that a process was given.

        Raises:
            Violation: D4: another process has them.
        """
        key = (transactional_id, producer.producer_id, producer.epoch)
        known = self._processes.setdefault(key, process)
        if known != process:
            text = f"{transactional_id}: processes {known} and {process} have {producer}"
            self._break(text)

    def consumed(self, number: int, start: int, end: int, seen: Mapping[int, bytes]) -> None:
        """Take note of what a reader of committed records saw in `[start, end)` of a partition.

        Raises:
            Violation: D4: it may not be seen, or another reader saw something else.
        """
        known = self._read.setdefault(number, {})
        for offset in range(start, end):
            value = seen.get(offset)
            if value is not None:
                self._check_visible(number, offset, value)
            if known.setdefault(offset, value) != value:
                text = f"offset {offset}: a consumer sees {value!r}, another one {known[offset]!r}"
                self._break(f"partition {number}, {text}")

    def _check_visible(self, number: int, offset: int, value: bytes) -> None:
        owner = self._owners.get(value)
        assert owner is not None, f"{value!r} was never sent"
        if not owner.may_be_seen:
            text = f"{value!r} of {owner.label} is seen, {owner.outcome.value}"
            self._break(f"partition {number}, offset {offset}: {text}")

    # ---- what replicas have --------------------------------------------------------------------

    def after_step(self, machine: "RecordsMachine") -> None:
        """Check that the last stable offsets of a leader do not go back, and each log at its start.

        Raises:
            Violation: D4.
        """
        for key in self._keys(TRANSACTIONAL):
            partition = self._checks.partition_at(machine.id, key)
            log = None if partition is None else partition.log
            if partition is None or log is None or log.is_replaying:
                continue
            place = (machine.id, machine.incarnation, (bytes(key[0]), key[1]))
            if place not in self._opened:
                self._opened.add(place)
                self._check_replica(machine, key, partition)
            if not isinstance(partition.role, Leadership):
                continue
            epoch, stable = partition.role.leader_epoch, log.last_stable_offset
            known = self._stable.get(place)
            if known is not None and known[0] == epoch and stable < known[1]:
                text = f"node {machine.id} lowers the last stable offset to {stable}"
                self._break(f"partition {key[1]}: {text} from {known[1]} in epoch {epoch}")
            self._stable[place] = (epoch, stable)

    def look(self) -> None:
        """Check the last stable offset and the epochs of all replicas.

        Raises:
            Violation: D4.
        """
        for key in self._keys(TRANSACTIONAL):
            for machine in self._machines.values():
                partition = self._checks.partition_at(machine.id, key)
                if partition is not None and partition.log is not None:
                    self._check_replica(machine, key, partition)

    def _check_replica(
        self, machine: "RecordsMachine", key: TopicIdPartition, partition: Partition
    ) -> None:
        log = partition.log
        assert log is not None, "it is open"
        if log.is_replaying:
            return
        view = view_of(self._checks.stored(machine, key))
        where = f"partition {key[1]} at node {machine.id}"
        if view.wrong:
            self._break(f"{where}: {view.wrong}")
        stable = log.last_stable_offset
        expected = max(view.stable_below(log.high_watermark), log.log_start_offset)
        if stable != expected:
            text = f"the last stable offset is {stable}, not {expected}"
            self._break(f"{where}: {text}, below {log.high_watermark}")

    def why_open(self) -> str:
        """Describe a transaction that is not ended yet; empty when there is none."""
        for key in self._keys(TRANSACTIONAL):
            leader = int(self._image().topics[key[0]].partitions[key[1]].leader)
            partition = self._checks.partition_at(leader, key)
            if partition is None or partition.log is None:
                return f"transactional-{key[1]} is not open at its leader"
            log = partition.log
            if log.last_stable_offset != log.end_offset:
                text = f"is stable below {log.last_stable_offset}, ends at {log.end_offset}"
                return f"transactional-{key[1]} {text}"
        return ""

    def why_unread(self, consumers: Sequence["RecordConsumer"]) -> str:
        """Describe a consumer that is not at the end, whose log is stable; empty without one."""
        for key in self._keys(TRANSACTIONAL):
            leader = int(self._image().topics[key[0]].partitions[key[1]].leader)
            partition = self._checks.partition_at(leader, key)
            end = 0 if partition is None or partition.log is None else partition.log.end_offset
            for each in consumers:
                if each.partition == key[1] and each.position < end:
                    return f"consumer {each.host} has read up to {each.position} of {end}"
        return ""

    # ---- at the end ----------------------------------------------------------------------------

    def check_at_rest(self) -> None:
        """Check that transactions are whole, and that consumers saw what is in the logs.

        Raises:
            Violation: D4.
        """
        self.look()
        for key in self._keys(STATE_TOPIC):
            wrong = wrong_in_log(self._stored_at_leader(key))
            if wrong:
                self._break(f"{STATE_TOPIC}-{key[1]}: {wrong}")
        committed: dict[int, set[bytes]] = {}
        for key in self._keys(TRANSACTIONAL):
            view = view_of(self._stored_at_leader(key))
            self._check_readers(key[1], view)
            committed[key[1]] = {value for value in view.visible.values() if value is not None}
        for written in self._all:
            self._check_whole(written, committed)

    def committed_values(self) -> list[bytes]:
        """Values of transactions that are committed, as the leaders have them."""
        views = [view_of(self._stored_at_leader(key)) for key in self._keys(TRANSACTIONAL)]
        return [value for view in views for value in view.visible.values() if value is not None]

    def _stored_at_leader(self, key: TopicIdPartition) -> list[StoredBatch]:
        leader = int(self._image().topics[key[0]].partitions[key[1]].leader)
        return self._checks.stored(self._machines[leader], key)

    def _check_readers(self, number: int, view: TransactionView) -> None:
        for offset, value in self._read.get(number, {}).items():
            if view.visible.get(offset) != value:
                text = f"a consumer saw {value!r}, committed is {view.visible.get(offset)!r}"
                self._break(f"partition {number}, offset {offset}: {text}")

    def _check_whole(self, written: Written, committed: Mapping[int, set[bytes]]) -> None:
        sent = {(number, value) for number, values in written.values.items() for value in values}
        seen = {(number, value) for number, value in sent if value in committed.get(number, ())}
        outcome = written.outcome
        if seen and not written.may_be_seen:
            self._break(f"{written.label} is committed: {outcome.value}")
        if outcome is Outcome.COMMITTED and seen != sent:
            self._break(f"{written.label} is committed without {sorted(sent - seen)}")
        if seen and seen != sent:
            self._break(f"{written.label} has {sorted(seen)} committed, not {sorted(sent - seen)}")
        if outcome is Outcome.ASKED:
            self.hit("committed_unknowingly" if seen else "refused_unknowingly")
