"""Invariants of records over all replicas: nothing promised is lost, replicas are equal.

    D1  what was acknowledged with acks=all, or read by a consumer, is in every later leader, unless
        all replicas in sync lost their power since they joined
    D2  the high watermark of a leader never falls in its epoch, and no replica of the maximal ISR
        ends below it; no consumer reads above it
    D3  replicas have the same bytes below both their high watermarks, but for what a leader lacked
        when all replicas in sync had lost their power
    D5  a batch of a producer, epoch and sequence is stored once, while it is not deleted
    D7  a leader epoch has one leader, and epochs of batches never fall
    D9  at rest nobody waits and no memory is held

A replica that loses its power may lose what it had not synced. It is `weak` until it leaves the
ISR: the controller removes it when it registers again, and it joins after it has caught up. It is
`behind` until it has what the leader has: where all lost their power, nobody leaves the ISR.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from metadata.image import Image
from replication.leader.isr import PartitionState, maximal_isr
from replication.leader.leadership import Leadership
from replication.partition import Partition
from replication.roles import Following
from simulator.checks.partitions.compacted import CLEANED, application_topics, plain_topics
from simulator.checks.partitions.log_starts import LogStarts
from simulator.checks.partitions.promised import Promised, Reign
from simulator.checks.partitions.record_logs import StoredBatch, batches_in, stored_batches
from simulator.checks.partitions.sequences import check_sequences
from simulator.checks.violation import Violation
from storage.logs.unified_log import UnifiedLog
from wire.types import TopicIdPartition

if TYPE_CHECKING:
    from simulator.records.machine import RecordsMachine

Key = TopicIdPartition


class RecordChecks:
    """Checks of all partitions of a world.

    Args:
        machines: of the world.
        image: gives the newest committed image.
        now_us: gives the time.
        hit: counts coverage marks.
    """

    def __init__(
        self,
        machines: "Mapping[int, RecordsMachine]",
        image: Callable[[], Image],
        now_us: Callable[[], int],
        hit: Callable[[str], None],
    ) -> None:
        self._machines = machines
        self._image = image
        self._now_us = now_us
        self.hit = hit
        self.starts = LogStarts()
        self.repeating: set[int] = set()
        """Producers that may have stored a value twice."""
        self._hasty: set[int] = set()
        """Producers that send each value once."""
        self._wall_ms = 0
        self._seen_image: Image | None = None
        self._promised: dict[tuple[bytes, int], Promised] = {}
        self._leaders: dict[tuple[Key, int], int] = {}
        """(partition, leader epoch) -> node."""
        self._watermarks: dict[tuple[int, int, Key], tuple[int, int, PartitionState]] = {}
        """(node, incarnation, partition) -> leader epoch, its high watermark and ISR."""

    def _of(self, key: tuple[bytes, int]) -> Promised:
        return self._promised.setdefault(key, Promised())

    # ---- what clients saw ----------------------------------------------------------------------

    def acknowledged(
        self,
        key: tuple[bytes, int],
        base_offset: int,
        values: Sequence[bytes],
        sent_us: int,
        leader_epoch: int | None = None,
    ) -> None:
        """Note what a producer was told, by the leader of an epoch; None for the newest."""
        if self._of(key).promises(sent_us, leader_epoch):
            self._promise("D1", key, base_offset, values)

    def consumed(
        self,
        key: tuple[bytes, int],
        base_offset: int,
        values: Sequence[bytes],
        sent_us: int,
        time_ms: int | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        """Note what a consumer read: it is committed."""
        of = self._of(key)
        if not of.promises(sent_us, leader_epoch):
            return
        self._promise("D2", key, base_offset, values)
        for offset in range(base_offset, base_offset + len(values)):
            if time_ms is not None and offset in of.values:
                of.times_ms[offset] = time_ms

    def _promise(
        self, invariant: str, key: tuple[bytes, int], base_offset: int, values: Sequence[bytes]
    ) -> None:
        of = self._of(key)
        for offset, value in enumerate(values, base_offset):
            if offset < of.start or offset in of.lacking:
                continue
            known = of.values.setdefault(offset, value)
            of.promised_us.setdefault(offset, self._now_us())
            if known != value:
                text = f"partition {key[1]}, offset {offset}: {value!r}, was {known!r}"
                raise Violation(invariant, text)

    def let_logs_start_anywhere(self) -> None:
        """Let whoever drives the run delete what he likes."""
        self.starts.are_free = True

    def note_repeating(self, host: int) -> None:
        """Note a producer that sends its values again under another id."""
        self.repeating.add(host)

    def may_have_lost(self, key: tuple[bytes, int]) -> bool:
        """True if all replicas in sync of a partition lost their power at some time."""
        return self._of(key).is_excused

    def exists(self, topic_id: bytes) -> bool:
        """True of a topic that was created and is not deleted, whatever a broker knows."""
        return topic_id in self._image().topics

    def out_of_range(self, key: tuple[bytes, int], offset: int, sent_us: int) -> None:
        """Take note that a consumer's offset, up to which it has read, is outside the log."""
        of = self._of(key)
        promised_us = of.promised_us.get(offset - 1)
        if promised_us is not None and of.since_us < sent_us and promised_us < sent_us:
            raise Violation("D1", f"partition {key[1]}: offset {offset} is out of range")

    def looked_up(
        self, key: tuple[bytes, int], asked_ms: int, time_ms: int, offset: int, sent_us: int
    ) -> None:
        """Take note of the first record that a broker found at or after a time.

        Raises:
            Violation: D2: it is older, or another one comes before it.
        """
        of = self._of(key)
        self.hit("looked_up_by_time")
        text = f"partition {key[1]}: asked for {asked_ms}, found {offset} of {time_ms}"
        if time_ms < asked_ms:
            raise Violation("D2", text)
        earlier = of.earlier(asked_ms, offset, sent_us)
        if earlier is not None:
            raise Violation("D2", f"{text}, and {earlier} is before it")

    # ---- weaker promises -----------------------------------------------------------------------

    def note_hasty(self, host: int) -> None:
        """Note a producer that sends each value once."""
        self._hasty.add(host)

    def reign_of(self, node: int, key: tuple[bytes, int]) -> "Reign | None":
        """The reign of a node over a partition, if it leads it now."""
        partition = self.partition_at(node, key)  # type: ignore[arg-type]
        if partition is None or not isinstance(partition.role, Leadership):
            return None
        machine = self._machines[node]
        return Reign(node, machine.incarnation, key, partition.role.leader_epoch)

    def written_at(self, reign: "Reign | None", offset: int, values: Sequence[bytes]) -> None:
        """Check that a leader has what it acknowledged with acks=1, as long as it reigns.

        Raises:
            Violation: D1.
        """
        if reign is None or self.reign_of(reign.node, reign.key) != reign:
            return
        self.hit("kept_with_acks_1")
        key: Key = reign.key  # type: ignore[assignment]
        partition = self.partition_at(reign.node, key)
        assert partition is not None, "it leads"
        assert partition.log is not None, "it leads"
        if offset < partition.log.log_start_offset or key[0] not in self._image().topics:
            return
        for batch in self.stored(self._machines[reign.node], key):
            if batch.base_offset <= offset < batch.end_offset:
                at = offset - batch.base_offset
                if batch.values[at : at + len(values)] == tuple(values):
                    return
        raise Violation(
            "D1", f"{_text(key)}: node {reign.node} lacks {values!r} at {offset}, acks=1"
        )

    def deleted(self, key: Key, offset: int, low_watermark: int) -> None:
        """Check the answer to DeleteRecords.

        Raises:
            Violation: D2.
        """
        if low_watermark < offset:
            raise Violation("D2", f"{_text(key)}: below {offset} asked, {low_watermark} answered")

    # ---- what the disks keep -------------------------------------------------------------------

    def power_lost(self, node: int) -> None:
        """Note that a replica may have lost what it had not synced."""
        for topic_id, topic in self._image().topics.items():
            for number, partition in topic.partitions.items():
                if node in partition.isr:
                    of = self._of((bytes(topic_id), number))
                    of.weak.add(node)
                    of.behind.add(node)
        self._seen_image = None
        self.image_changed()

    def image_changed(self) -> None:
        """Follow the ISRs of the newest image."""
        image = self._image()
        if image is self._seen_image:
            return
        self._seen_image = image
        for key, of in self._promised.items():
            topic = image.topics.get(key[0])  # type: ignore[call-overload]
            if topic is None or not of.weak:
                continue
            partition = topic.partitions[key[1]]
            isr = set(partition.isr)
            of.weak &= isr
            if isr and of.weak == isr:
                self.hit("isr_lost_power")
                of.weak.clear()
                of.behind.update(self._machines)  # also who knows of more, be it by an old log
                of.excuse(self._now_us(), partition.leader_epoch)

    # ---- steps ---------------------------------------------------------------------------------

    def after_step(self, machine: "RecordsMachine") -> None:
        """Check the partitions of a node.

        Raises:
            Violation: one is broken.
        """
        records = machine.records
        assert records is not None, "it has stepped"
        for key, partition in records.broker._replicas.partitions.items():  # noqa: SLF001
            role = partition.role
            if partition.log is not None and partition.log.log_start_offset > 0:
                self._check_start(machine, key, partition.log)
            if isinstance(role, Leadership):
                self._check_leader(machine, key, role)

    def _check_start(self, machine: "RecordsMachine", key: Key, log: UnifiedLog) -> None:
        """Check that a log start above all others has a reason, and expect nothing below it."""
        place = (bytes(key[0]), key[1])
        of, start = self._of(place), log.log_start_offset
        if start <= of.start:
            return
        if key[0] not in self._image().topics:  # it may still be read where that is not known
            of.start = start
            of.forget_below(start)
            return
        for each in self._machines.values():
            self._wall_ms = max(self._wall_ms, each.now().wall_ms)
        stored = self.stored(machine, key)
        left = sum(len(batch.content) for batch in stored if batch.end_offset > start)
        reason = self.starts.reason(
            place, start, of.times_ms, bytes_left=left, wall_ms=self._wall_ms
        )
        if not reason:
            text = f"{_text(key)}: node {machine.id} begins at {start}, was {of.start}"
            raise Violation("D1", f"{text}; {left} bytes left")
        self.hit(f"log_start_rose_by_{reason}")
        of.start = start
        of.forget_below(start)

    def _check_leader(self, machine: "RecordsMachine", key: Key, role: Leadership) -> None:
        epoch, node = role.leader_epoch, machine.id
        leader = self._leaders.get((key, epoch))
        if leader is None:
            self._leaders[key, epoch] = leader = node
            self._check_kept(machine, key, epoch)
            self._note_lacking(machine, key, role)
        if leader != node:
            raise Violation("D7", f"{_text(key)}: nodes {leader} and {node} lead epoch {epoch}")
        place = (node, machine.incarnation, key)
        watermark, state = int(role.high_watermark), role.state
        known = self._watermarks.get(place)
        if known == (epoch, watermark, state):
            return
        if known is not None and known[0] == epoch and watermark < known[1]:
            text = f"{_text(key)}: node {node} lowers the high watermark to {watermark}"
            raise Violation("D2", f"{text} from {known[1]} in epoch {epoch}")
        self._watermarks[place] = (epoch, watermark, state)
        self._check_ends(key, role, watermark)

    def _check_ends(self, key: Key, role: Leadership, watermark: int) -> None:
        """Check that all of the maximal ISR have what is committed."""
        behind = self._of((bytes(key[0]), key[1])).behind
        for member in maximal_isr(role.state):
            other = self.partition_at(member, key)
            if member in behind or other is None or other.log is None:
                continue
            if isinstance(other.role, Following) and other.leader_epoch == role.leader_epoch:
                end = other.log.log.end_offset
                if end < watermark:
                    text = f"{_text(key)}: high watermark {watermark}, node {member} ends at {end}"
                    raise Violation("D2", text)

    def partitions_at(self, node: int) -> Mapping[Key, Partition]:
        """All replicas as the running process of a node has them."""
        machine = self._machines.get(node)
        records = None if machine is None else machine.records
        if records is None:
            return {}
        return records.broker._replicas.partitions  # noqa: SLF001

    def partition_at(self, node: int, key: Key) -> Partition | None:
        """A replica as the running process of a node has it."""
        return self.partitions_at(node).get(key)

    def _check_kept(self, machine: "RecordsMachine", key: Key, epoch: int) -> None:
        """Check that the leader of the newest epoch has what was promised."""
        of = self._promised.get((bytes(key[0]), key[1]))
        topic = self._image().topics.get(key[0])
        if of is None or not of.values or topic is None:
            return
        if topic.partitions[key[1]].leader_epoch != epoch:
            return  # it is about to learn of another one
        self.hit("leader_changed_with_records")
        self.check_promised(machine, key)

    def _note_lacking(self, machine: "RecordsMachine", key: Key, role: Leadership) -> None:
        of = self._of((bytes(key[0]), key[1]))
        if of.is_excused:
            log = role.log.log
            of.note_lacking(log.log_start_offset, log.end_offset, self.stored(machine, key))

    def check_promised(self, machine: "RecordsMachine", key: Key) -> None:
        """Check that a replica has all that was promised.

        Raises:
            Violation: D1.
        """
        stored = {
            offset: value
            for batch in self.stored(machine, key)
            for offset, value in enumerate(batch.values, batch.base_offset)
        }
        for offset, value in self._of((bytes(key[0]), key[1])).values.items():
            if stored.get(offset) != value:
                found = stored.get(offset)
                text = f"{_text(key)}, offset {offset}: node {machine.id} leads with {found!r}"
                raise Violation("D1", f"{text}, promised was {value!r}")

    def stored(self, machine: "RecordsMachine", key: Key) -> list[StoredBatch]:
        """Batches in the files of a replica; none of a topic that is deleted.

        A running process says which directory its log is in: one that has just been moved has the
        name of a copy for a moment.
        """
        topic = self._image().topics.get(key[0])
        if topic is None:
            return []
        replica = self.partition_at(machine.id, key)
        if replica is not None and replica.log is not None:
            return batches_in(machine.vfs, replica.log.log.directory)
        log_dirs = machine.config.log_dirs
        return stored_batches(machine.vfs, topic.name, key[1], bytes(key[0]), log_dirs)

    # ---- now and then, and at the end ----------------------------------------------------------

    def compare_replicas(self) -> None:
        """Check D3 and D7 of all running replicas.

        Raises:
            Violation: two differ below both their high watermarks.
        """
        for topic_id, topic in plain_topics(self._image()):
            for number, row in topic.partitions.items():
                self._note_caught_up((topic_id, number), int(row.leader))
                self._compare((topic_id, number), [int(each) for each in row.replicas])

    def _compare(self, key: Key, replicas: Sequence[int]) -> None:
        behind = self._of((bytes(key[0]), key[1])).behind
        known: dict[int, tuple[int, bytes]] = {}
        hosts = ((node, self.partition_at(node, key)) for node in replicas if node not in behind)
        open_logs = [
            (node, each.log) for node, each in hosts if each is not None and each.log is not None
        ]
        start = max((log.log_start_offset for _, log in open_logs), default=0)
        for node, log in open_logs:
            epoch = -1
            for batch in self.stored(self._machines[node], key):
                if batch.leader_epoch < epoch:
                    text = f"{_text(key)}: node {node}, epoch of {batch.base_offset}"
                    raise Violation("D7", text)
                epoch = batch.leader_epoch
                if batch.end_offset > log.high_watermark:
                    break
                if batch.end_offset <= start:
                    continue  # deleted; a leader does not know how far an epoch below it went
                first, content = known.setdefault(batch.base_offset, (node, batch.content))
                if content != batch.content:
                    text = f"nodes {first} and {node} differ at offset {batch.base_offset}"
                    raise Violation("D3", f"{_text(key)}: {text}")

    def _note_caught_up(self, key: Key, leader: int) -> None:
        """Leave out of `behind` who has all that the leader of the newest epoch has committed."""
        behind = self._of((bytes(key[0]), key[1])).behind
        at_leader = self.partition_at(leader, key) if behind and leader >= 0 else None
        if at_leader is None or not isinstance(at_leader.role, Leadership):
            return
        behind.discard(leader)
        watermark = at_leader.role.high_watermark
        for node in tuple(behind):
            replica = self.partition_at(node, key)
            if (
                replica is not None
                and replica.log is not None
                and replica.leader_epoch == at_leader.leader_epoch
                and self._have_the_same(leader, node, key, watermark)
                and replica.log.high_watermark <= watermark
            ):
                behind.discard(node)

    def _have_the_same(self, first: int, second: int, key: Key, watermark: int) -> bool:
        """Compare what two replicas have from the higher log start to a high watermark."""
        lacking = self._of((bytes(key[0]), key[1])).lacking
        starts = [self.partition_at(node, key) for node in (first, second)]
        start = max(each.log.log_start_offset for each in starts if each and each.log)
        contents = [
            [
                batch.content
                for batch in self.stored(self._machines[node], key)
                if start < batch.end_offset <= watermark and batch.base_offset not in lacking
            ]
            for node in (first, second)
        ]
        return contents[0] == contents[1]

    def check_sequences(self) -> None:
        """Check D5 of every log.

        Raises:
            Violation: a batch of an idempotent producer is stored twice.
        """
        for topic_id, topic in application_topics(self._image()):
            for number, row in topic.partitions.items():
                key, once = (topic_id, number), self._hasty
                stored = self.stored(self._machines[int(row.leader)], key)
                start, again = self._of(key).start, self.repeating
                check_sequences(number, stored, log_start=start, hasty=once, repeating=again)

    def _replicas(self, key: tuple[bytes, int]) -> set[int]:
        topic = self._image().topics.get(key[0])  # type: ignore[call-overload]
        is_plain = topic is not None and topic.name not in CLEANED
        return set(map(int, topic.partitions[key[1]].replicas)) if is_plain else set()

    def check_at_rest(self) -> None:
        """Check D1 of all leaders, D3, D5 and D9, when all is quiet.

        Raises:
            Violation: one is broken.
        """
        for key in self._promised:
            topic = self._image().topics.get(key[0])  # type: ignore[call-overload]
            if topic is not None:
                leader = self._machines[int(topic.partitions[key[1]].leader)]
                self.check_promised(leader, key)  # type: ignore[arg-type]
        self.compare_replicas()
        left = [key[1] for key, of in self._promised.items() if of.behind & self._replicas(key)]
        if left:
            raise Violation("D3", f"replicas of partitions {left} differ at rest")
        self.check_sequences()
        for machine in self._machines.values():
            if machine.records is not None:
                broker = machine.records.broker
                produces, _, deletions = broker._replicas.waiting_counts  # noqa: SLF001
                held = (produces, deletions, broker.memory.used_bytes)
                if any(held):
                    raise Violation("D9", f"node {machine.id} at rest: {held}")


def _text(key: Key) -> str:
    return f"partition {bytes(key[0]).hex()[:8]}-{key[1]}"


LOOKED_AT_EVERY_US: Final = 500_000
"""Time between two comparisons of all replicas."""
