"""A coordinator, the leaders of three partitions and producers, joined by a lossy network."""

from typing import Any

from hypothesis import strategies as st

from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.coordinator import EndRequest
from coordinator.transaction.decisions import InitRequest
from coordinator.transaction.markers import Markers
from network.clock import Now
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.log_validator import AppendRules
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.append_source import AppendSource
from storage.producers.producer_state import Origin, ProducerStateError
from storage.producers.verification import VerificationGuard
from tests.coordinator.memory_log import MemoryShardLog
from tests.coordinator.transaction.test_machine import Coordinator
from tests.storage.test_unified_log import opened, produced
from wire.api_keys import WRITE_TXN_MARKERS
from wire.batches.batch import iterate_batches
from wire.batches.transaction_markers import marker_batch
from wire.errors import ApiError, ErrorCode
from wire.messages import codec

PARTITIONS = 3
TRANSACTIONAL = 0x10
TIMEOUT_MS = 500
FATES = st.sampled_from(["answered", "answer lost", "lost", "late"])


class Producer:
    """A client of transactional id x; it writes the number of its transaction."""

    def __init__(self, producer: ProducerIdAndEpoch, order: int) -> None:
        self.id_and_epoch = producer
        self.order = order
        """Of the clients of the id: a later one fences it."""
        self.sequences: dict[int, int] = {}
        self.transaction: int | None = None
        self.added: set[int] = set()
        """Partitions of the transaction."""
        self.sent: tuple[int, Any, VerificationGuard | None, int] | None = None
        """Partition, batch, guard and transaction of a write whose verification was answered."""


class World:
    """All parts, which move in the order of the calls and not by themselves."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.logs = [opened(MemoryVfs(), AppendRules()) for _ in range(PARTITIONS)]
        self.network: list[Any] = []
        self.epoch = 0
        self.coordinator = self._elected(MemoryShardLog(), Now(0, 5_000_000))
        self.producers: list[Producer] = []
        self.written: dict[int, set[int]] = {}
        """Partitions that took records, by transaction."""
        self.outcomes: dict[int, str] = {}
        self.newest = 0
        """Order of the last client that was initialized."""

    def _elected(self, log: MemoryShardLog, now: Now) -> Coordinator:
        self.epoch += 1
        return Coordinator(
            self.version,
            log,
            self.epoch,
            now=now,
            markers=lambda clock: Markers(clock, lambda _: 1, self._send),
        )

    def move(self, *, loses: bool) -> None:
        """Another broker becomes the coordinator; it may lack what was not committed."""
        old = self.coordinator
        old.shard.resign()
        if loses:
            log = old.log
            log.batches = [each for each in log.batches if each[0] < log.high_watermark]
            log.end_offset = log.high_watermark
        self.coordinator = self._elected(old.log, Now(old.clock.now_ms, old.clock.wall_ms))
        self.coordinator.next_id = old.next_id + 1_000

    # -- network and time -----------------------------------------------------------------------

    def _send(self, _node: int, body: Any, answered: Any) -> None:
        self.network.append((body, answered))

    def deliver(self, fate: str, index: int = 0) -> None:
        """Let markers arrive, or not, and the answer too; late ones arrive when nobody waits."""
        if not self.network:
            return
        body, answered = self.network.pop(index % len(self.network))
        if fate == "late":
            self.network.append((body, lambda _: None))
        response = self._written(body) if fate in ("answered", "answer lost") else None
        answered(response if fate == "answered" else None)

    def _written(self, body: Any) -> Any:
        new = codec.newest(WRITE_TXN_MARKERS, "response")
        results = []
        for marker in body.markers:
            rows = []
            for number in marker.topics[0].partition_indexes:
                batch = marker_batch(
                    marker.producer_id,
                    marker.producer_epoch,
                    is_commit=marker.transaction_result,
                    coordinator_epoch=marker.coordinator_epoch,
                    timestamp_ms=self.coordinator.clock.wall_ms,
                )
                source = AppendSource(
                    Origin.COORDINATOR, transaction_version=marker.transaction_version
                )
                code = ErrorCode.none
                try:
                    self.logs[number].append_as_leader(batch, 1, 5_000_000, source)
                except ProducerStateError as error:
                    code = error.code
                rows.append(
                    new.WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                )
            topic = new.WritableTxnMarkerTopicResult(name="t", partitions=tuple(rows))
            results.append(
                new.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=(topic,))
            )
        for log in self.logs:
            log.set_high_watermark(log.end_offset)
        return new.WriteTxnMarkersResponse(markers=tuple(results))

    def commit(self) -> None:
        self.coordinator.log.commit(self.coordinator.shard)

    def advance(self, ms: int) -> None:
        self.coordinator.advance(ms)
        markers = self.coordinator.markers
        due_ms = markers.next_ms()
        if due_ms is not None and due_ms <= self.coordinator.clock.now_ms:
            markers.tick()

    def settle(self) -> None:
        """Let everything arrive until nothing moves; open transactions time out."""
        for _ in range(12):
            self.commit()
            while self.network:
                self.deliver("answered")
                self.commit()
            self.advance(TIMEOUT_MS)

    def asked(self, ask: Any) -> Any:
        """The answer to a request, once it is committed."""
        answers: list[Any] = []
        ask(answers.append)
        self.commit()
        (answer,) = answers
        return answer

    # -- producers ------------------------------------------------------------------------------

    def start(self) -> None:
        """A client begins; while another's transaction ends it may not yet."""
        answer = self.asked(
            lambda take: self.coordinator.coordinator.init_producer_id(
                "x", InitRequest(TIMEOUT_MS, None), take
            )
        )
        if not isinstance(answer, ApiError):
            self.newest += 1
            self.producers.append(Producer(answer, self.newest))

    def verify(self, producer: Producer, number: int) -> None:
        """Ask for a write, as the leader does; its append may come much later."""
        if producer.transaction is None:
            producer.transaction = len(self.outcomes)
            self.outcomes[producer.transaction] = "open"
            self.written[producer.transaction] = set()
        if self.version < 2 and not self._added(producer, number):
            return
        batch = produced(
            5_000_000,
            producer=producer.id_and_epoch.producer_id,
            epoch=producer.id_and_epoch.producer_epoch,
            sequence=producer.sequences.get(number, 0),
            attributes=TRANSACTIONAL,
            value=str(producer.transaction).encode(),
        )
        try:
            guard = self.logs[number].begin_verification(
                batch.header, 5_000_000, supports_epoch_bump=self.version == 2
            )
        except ProducerStateError:
            return
        if guard is None or self._verified(producer, number):
            producer.sent = (number, batch, guard, producer.transaction)

    def _added(self, producer: Producer, number: int) -> bool:
        """Add a partition to the transaction, as a client does before it writes to it."""
        if number in producer.added:
            return True
        code = self.asked(
            lambda take: self.coordinator.coordinator.add_partitions(
                "x",
                producer.id_and_epoch,
                frozenset({("t", number)}),
                client_version=2 if self.version == 2 else 0,
                answer=take,
            )
        )
        if code is ErrorCode.none:
            producer.added.add(number)
        return code is ErrorCode.none

    def _verified(self, producer: Producer, number: int) -> bool:
        """Ask the coordinator, as the leader does."""
        if self.version == 2:
            producer.added.discard(number)
            return self._added(producer, number)
        partition = ("t", number)
        codes = self.asked(
            lambda take: self.coordinator.coordinator.verify_partitions(
                "x", producer.id_and_epoch, frozenset({partition}), take
            )
        )
        return codes[partition] is ErrorCode.none

    def append(self, producer: Producer) -> bool:
        """Append what was verified; True if the leader took it."""
        if producer.sent is None:
            return False
        number, batch, guard, transaction = producer.sent
        producer.sent = None
        try:
            found = self.logs[number].append_as_leader(
                batch, 1, 5_000_000, AppendSource(guard=guard)
            )
        except ProducerStateError:
            return False
        if not found.is_duplicate:
            if transaction == producer.transaction:
                producer.sequences[number] = producer.sequences.get(number, 0) + 1
            self.written[transaction].add(number)
        self.logs[number].set_high_watermark(self.logs[number].end_offset)
        return True

    def end(self, producer: Producer, *, is_commit: bool) -> None:
        """Commit or abort; a client that is refused does not know the outcome, and stops."""
        if producer.transaction is None:
            return
        version = 2 if self.version == 2 else 0
        request = EndRequest(producer.id_and_epoch, is_commit, version)
        answer = self.asked(
            lambda take: self.coordinator.coordinator.end_transaction("x", request, take)
        )
        if isinstance(answer, ApiError):
            self.outcomes[producer.transaction] = "unknown"
            self.producers.remove(producer)
            return
        self.outcomes[producer.transaction] = "committed" if is_commit else "aborted"
        producer.transaction, producer.added = None, set()
        if is_commit:  # an abort does not wait for what is under way
            producer.sent = None
        if version == 2:
            producer.id_and_epoch, producer.sequences = answer, {}

    def end_uncommitted(self, producer: Producer, *, is_commit: bool) -> None:
        """Ask for an end that is appended, and not committed when the client gives up."""
        assert producer.transaction is not None
        request = EndRequest(producer.id_and_epoch, is_commit, 2 if self.version == 2 else 0)
        self.coordinator.coordinator.end_transaction("x", request, lambda _: None)
        self.coordinator.shard.flush()
        self.outcomes[producer.transaction] = "unknown"
        self.producers.remove(producer)

    # -- readers --------------------------------------------------------------------------------

    def visible(self, log: UnifiedLog) -> list[int]:
        """Transactions of the records that a committed reader sees, as a client filters them."""
        aborted = sorted(
            log.aborted_transactions(0, log.last_stable_offset), key=lambda each: each.first_offset
        )
        seen, open_aborted, offset = [], set(), 0
        while offset < log.last_stable_offset:
            found = log.slice(offset, 1 << 20, FetchIsolation.TXN_COMMITTED, at_least_one=True)
            for batch in iterate_batches(b"" if found is None else found.read()):
                header = batch.header
                offset = header.end_offset
                while aborted and aborted[0].first_offset <= header.last_offset:
                    open_aborted.add(aborted.pop(0).producer_id)
                if header.is_control:
                    open_aborted.discard(header.producer_id)
                elif header.producer_id not in open_aborted:
                    seen += [int(record.value or b"") for record in batch.records()]
        return seen
