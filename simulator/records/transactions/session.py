"""One process of an application with a transactional id: transactions, one after the other.

It begins with InitProducerId, which fences the process before it. A transaction writes to several
partitions, at the same time, several times; then it is committed, aborted, or left until its time
is over. What goes wrong is aborted, as Java's producer does; a process whose abort is refused, too,
is fenced: it may write once more, as one that does not know it (a zombie), and ends.

An older client adds partitions itself, keeps its epoch, and takes the next one behind an error; a
newer one writes at once and has the next epoch behind each transaction (KIP-890).
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from simulator.checks.partitions.transactions import TransactionChecks, Written
from simulator.cluster.machine import WALL_MS
from simulator.records.clients import Cluster
from simulator.records.requests import Producer
from simulator.records.transactions import requests
from simulator.records.transactions.lane import CoordinatorClient, Lane
from wire.api_keys import ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID
from wire.errors import ErrorCode

ROUNDS_MAX: Final = 3
VALUES_MAX: Final = 3
PAUSE_US: Final = 30_000
COMMITTED_SHARE: Final = 0.7
ABORTED_SHARE: Final = 0.9
"""Share of transactions that are committed or aborted; the others are left first."""
LATE_SHARE: Final = 0.5
"""Share of fenced processes that write once more."""


class SessionRules(msgspec.Struct, frozen=True, kw_only=True):
    """Ways of the processes of one transactional id."""

    transactional_id: str
    host: int
    is_old: bool
    """True for a client from before transaction.version 2."""
    timeout_ms: int
    """`transaction.timeout.ms`"""


class Session:
    """One process.

    Args:
        cluster: of the transactional topic.
        rules: of the transactional id.
        number: of the process.
        checks: told what it does and is told.
        ended: called once, when it ends by itself.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: SessionRules,
        number: int,
        checks: TransactionChecks,
        ended: "Callable[[Session], None]",
    ) -> None:
        self._rules = rules
        self._number = number
        self._checks = checks
        self._ended = ended
        self._rng = cluster.rng
        self._scheduler = cluster.scheduler
        self._coordinator = CoordinatorClient(
            cluster, rules.host, rules.transactional_id, is_old=rules.is_old
        )
        self._topic = cluster.topic
        self._lanes = [
            Lane(cluster, rules.host, number, is_old=rules.is_old)
            for number in range(cluster.topic.partitions)
        ]
        self._producer: Producer | None = None
        self._sequences: dict[int, int] = {}
        self._transactions = self._values = 0
        self._written: Written | None = None
        self._added: set[int] = set()
        self._rounds: list[list[int]] = []
        self._attempt = 0
        """Counts failures: what was asked for before the last one is of no interest."""
        self.is_stopping = False
        """True: it begins no further transaction."""
        self.is_over = False
        self.acknowledged = 0

    @property
    def clients(self) -> tuple[CoordinatorClient | Lane, ...]:
        """Its clients, which count requests."""
        return (self._coordinator, *self._lanes)

    @property
    def asked(self) -> int:
        """Number of requests."""
        return sum(client.asked for client in self.clients)

    @property
    def answered(self) -> int:
        """Number of requests with a response."""
        return sum(client.answered for client in self.clients)

    def crash(self, *, is_noticed: bool) -> None:
        """End at once; if it is noticed its connections end too."""
        self.is_over = True
        for client in self.clients:
            client.is_stopped = True
            if is_noticed:
                client.close()

    def _over(self) -> None:
        self.crash(is_noticed=True)
        self._ended(self)

    def _later(self, act: Callable[[], None], mean_us: int = PAUSE_US) -> None:
        self._coordinator.later(self._coordinator.when_running(act), mean_us)

    # ---- the producer --------------------------------------------------------------------------

    def start(self, expected: Producer | None = None) -> None:
        """Get a producer id and an epoch; with `expected` as the one that goes on."""
        rules = self._rules
        body = requests.init_producer_id(rules.transactional_id, rules.timeout_ms, expected)

        def done(code: ErrorCode, response: Any, _: int) -> None:
            if code is not ErrorCode.none:
                self._over()
                return
            self._go_on_as(Producer(int(response.producer_id), int(response.producer_epoch)))
            self._later(self._begin)

        self._coordinator.ask_until(INIT_PRODUCER_ID, body, _code, done)

    def _go_on_as(self, producer: Producer) -> None:
        self._checks.initialized(self._rules.transactional_id, self._number, producer)
        self._producer = producer
        self._sequences.clear()

    @property
    def producer(self) -> Producer:
        """Its producer id and epoch."""
        assert self._producer is not None, "it is initialized"
        return self._producer

    # ---- a transaction -------------------------------------------------------------------------

    def _label(self) -> str:
        rules = self._rules
        return f"{rules.transactional_id} of process {self._number}, {self._transactions}"

    def _begin(self) -> None:
        if self.is_stopping:
            self._over()
            return
        rng, count = self._rng, len(self._lanes)
        self._transactions += 1
        self._written = self._checks.begin(self._label())
        self._added.clear()
        self._rounds = [
            sorted(rng.sample(range(count), rng.randrange(1, count + 1)))
            for _ in range(rng.randrange(1, ROUNDS_MAX + 1))
        ]
        self._go_on()

    def _go_on(self) -> None:
        """Write to the partitions of the next round; behind the last one the end."""
        if not self._rounds:
            self._finish()
            return
        partitions = self._rounds.pop(0)
        if not self._rules.is_old or self._added.issuperset(partitions):
            self._write(partitions)
            return
        rules = self._rules
        body = requests.add_partitions(
            rules.transactional_id, self.producer, self._topic.name, partitions
        )

        def done(code: ErrorCode, _: Any, __: int) -> None:
            if code is ErrorCode.none:
                self._added.update(partitions)
                self._write(partitions)
            else:
                self._failed()

        self._coordinator.ask_until(ADD_PARTITIONS_TO_TXN, body, _first_code, done)

    def _write(self, partitions: list[int]) -> None:
        attempt, missing = self._attempt, set(partitions)

        def done(number: int, values: tuple[bytes, ...], code: ErrorCode) -> None:
            if attempt != self._attempt:
                return
            if code is not ErrorCode.none:
                self._failed()
                return
            self.acknowledged += len(values)
            missing.discard(number)
            if not missing:
                self._later(self._go_on)

        for number in partitions:
            self._send(number, self._written, done)

    def _send(
        self,
        number: int,
        written: Written | None,
        done: Callable[[int, tuple[bytes, ...], ErrorCode], None],
    ) -> None:
        """Write some values to a partition."""
        assert written is not None, "a transaction has begun"
        rules, lane, sent_us = self._rules, self._lanes[number], self._scheduler.now_us
        values = self._new_values(number)
        count = len(values)
        self._values += count
        written.send(number, values)
        self._checks.owned_by(written, values)
        wall_ms = WALL_MS + sent_us // 1_000
        sequence = self._sequences.get(number, 0)
        self._sequences[number] = sequence + count
        records = requests.batch(values, wall_ms, self.producer, sequence)

        def taken(code: ErrorCode, row: Any) -> None:
            # Where decisions were lost another process may have had this epoch, and its batches
            # are taken for those of this one.
            if code is ErrorCode.none and not self._checks.is_excused:
                lane.checks.acknowledged(lane.key, row.base_offset, values, sent_us)
            done(number, values, code)

        lane.write(rules.transactional_id, records, taken)

    def _new_values(self, number: int) -> tuple[bytes, ...]:
        """Values for a partition that nobody has sent before."""
        del number
        count = self._rng.randrange(1, VALUES_MAX + 1)
        return tuple(
            b"%d:%d:%d" % (self._rules.host, self._number, self._values + n) for n in range(count)
        )

    # ---- its end -------------------------------------------------------------------------------

    def _finish(self) -> None:
        drawn = self._rng.random()
        if drawn < COMMITTED_SHARE:
            self._end(is_commit=True)
        elif drawn < ABORTED_SHARE:
            self._end(is_commit=False)
        else:
            self._later(lambda: self._end(is_commit=True), self._rules.timeout_ms * 2_000)

    def _end(self, *, is_commit: bool) -> None:
        written = self._written
        assert written is not None, "a transaction has begun"
        if is_commit:
            written.ask_commit()

        def done(code: ErrorCode, response: Any, tries: int) -> None:
            if code is ErrorCode.none:
                written.end(is_commit=is_commit)
                self._checks.hit("transaction_committed" if is_commit else "transaction_aborted")
                self._next(response)
            else:
                if tries == 1:
                    written.end(is_commit=False)
                self._checks.hit("end_refused")
                self._refused(code)

        self._coordinator.ask_until(END_TXN, self._end_body(is_commit=is_commit), _code, done)

    def _end_body(self, *, is_commit: bool) -> Any:
        return requests.end(self._rules.transactional_id, self.producer, is_commit=is_commit)

    def _next(self, response: Any) -> None:
        """Begin the next transaction, as a newer client with the epoch that it was given."""
        if not self._rules.is_old:
            self._go_on_as(Producer(int(response.producer_id), int(response.producer_epoch)))
        self._later(self._begin)

    def _failed(self) -> None:
        """Abort what cannot be written; an older client takes the next epoch then."""
        self._attempt += 1
        self._checks.hit("write_refused")

        def done(code: ErrorCode, response: Any, _: int) -> None:
            if code is not ErrorCode.none:
                self._refused(code)
            elif self._rules.is_old:
                self.start(self.producer)
            else:
                self._next(response)

        self._coordinator.ask_until(END_TXN, self._end_body(is_commit=False), _code, done)

    def _refused(self, code: ErrorCode) -> None:
        """Go on as an older client whose transaction is gone; else it is fenced."""
        self._attempt += 1
        if code is ErrorCode.invalid_txn_state and self._rules.is_old:
            self.start(self.producer)
            return
        self._checks.hit("process_fenced")
        if self._rng.random() >= LATE_SHARE:
            self._over()
            return
        missing = len(self._lanes)

        def done(*_: Any) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                self._over()

        written = self._checks.begin(f"late write of {self._label()}")
        for number in range(missing):
            self._send(number, written, done)


def _code(response: Any) -> ErrorCode:
    code: ErrorCode = response.error_code
    return code


def _first_code(response: Any) -> ErrorCode:
    """Error of an AddPartitionsToTxn: the first that says more than that others have one."""
    topics = response.results_by_topic_v3_and_below
    codes = [row.partition_error_code for each in topics for row in each.results_by_partition]
    others = (ErrorCode.none, ErrorCode.operation_not_attempted)
    first: ErrorCode = next((code for code in codes if code not in others), codes[0])
    return first
