"""Clients of the simulated cluster: raw Kafka protocol, one request at a time, no retries.

Each client creates, deletes, configures or looks up topics through one node after the other. Every
operation enters a history with its outcome; without an answer in time it is indeterminate. What a
refusal proves is decided in simulator/checks/operations/histories.py.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from typing_extensions import override

from metadata.image import Image
from simulator.campaign.draw import Settings
from simulator.checks.operations.proofs import Proofs
from simulator.cluster.client_choices import NAMES, Choices, topic_name
from simulator.cluster.client_end import ClientEnd
from simulator.cluster.linearizable_reads import LinearizableReads
from simulator.cluster.members import FIRST_CLIENT_HOST
from simulator.cluster.network import Network, Pipe
from simulator.cluster.requests import (
    CONFIG,
    READS,
    TOPIC_RESOURCE,
    Operation,
    answer_of,
    request_of,
)
from simulator.cluster.scheduler import Scheduler
from wire.errors import ErrorCode

REQUEST_US: Final = 5_000_000
"""Time after which a client takes an operation for indeterminate."""
READ_US: Final = 300_000
"""The same of a linearizable read: short, so that some begin while a stopped leader is replaced."""


LINEARIZABLE: Final = "linearizable"
"""Proof of a read whose node says that its image has all that is acknowledged."""
REFUSALS: Final = ("topic_already_exists", "unknown_topic_or_partition")
"""Names of the errors that show the state of a topic."""
REFUSED_FOR_SURE: Final = frozenset({ErrorCode.invalid_replication_factor})
"""Errors that are a refusal by the one controller that the request was sent to.

A broker forwards a request again after it lost the controller (as Kafka's does), so that
TOPIC_ALREADY_EXISTS may be about the topic that this very request made; and behind an election a
refusal may be of the second time.
"""


class Client:
    """One client: one operation at a time, on a connection that it keeps while it can."""

    def __init__(
        self, number: int, workload: "Workload", network: Network, scheduler: Scheduler
    ) -> None:
        self.host = FIRST_CLIENT_HOST + number
        self._workload = workload
        self._network = network
        self._scheduler = scheduler
        self._connection: Connection | None = None
        self._operation: Operation | None = None
        self._attempt = self._elections = 0

    def run(self, operation: Operation, target: int) -> None:
        """Run one operation through a node; its outcome goes to the workload."""
        self._operation = operation
        self._attempt += 1
        attempt, self._elections = self._attempt, self._workload.elections()
        reads = self._workload.linearizable_reads
        if reads is not None and operation.kind in READS:
            self._begin_read(reads, operation, target)
            return
        self._workload.trace(operation, "invoke")
        if self._connection is not None and self._connection.target != target:
            self._connection.disconnect()
            self._connection = None
        if self._connection is None:
            self._connection = Connection(self, target, self._network, self._workload.open)
        self._connection.send(*request_of(operation, self._workload.partition_count))
        self._scheduler.after(REQUEST_US, lambda: self._time_out(attempt))

    def answered(self, body: Any) -> None:
        """Take the answer to the operation under way."""
        operation = self._operation
        assert operation is not None
        answer = answer_of(operation, body)
        if answer.error is ErrorCode.none:
            operation.topic_id = answer.topic_id
            if operation.kind == "read":
                operation.value = answer.value
            self._end("ok", None)
        elif answer.error in REFUSED_FOR_SURE and self._elections == self._workload.elections():
            self._end("fail", "REFUSED")
        else:
            self._end("info", answer.error.name)

    def _begin_read(self, reads: LinearizableReads, operation: Operation, target: int) -> None:
        """Read at a node that takes itself for the leader, at `target` if there is none."""
        attempt = self._attempt
        operation.target = reads.target(target)
        self._workload.trace(operation, "invoke")
        reads.begin(operation.target, lambda image: self._read(attempt, image))
        self._scheduler.after(READ_US, lambda: self._time_out(attempt))

    def _read(self, attempt: int, image: Image | None) -> None:
        """Take the image of a linearizable read; None: the node could not tell."""
        operation = self._operation
        if attempt != self._attempt or operation is None:
            return
        if image is None:
            self._end("fail", "NOT_LINEARIZABLE")
            return
        operation.proof = LINEARIZABLE
        if operation.kind == "read":
            operation.value = image.config(TOPIC_RESOURCE, operation.name).get(CONFIG)
        else:
            topic = image.topic_named(operation.name)
            operation.topic_id = None if topic is None else topic.topic_id
        self._end("ok", None)

    def lost(self, connection: "Connection", *, refused: bool) -> None:
        """End the operation: its node is gone, it may still happen; refused: nothing was sent."""
        if connection is not self._connection:
            return
        self._connection = None
        if self._operation is not None:
            self._end("fail" if refused else "info", "REFUSED" if refused else "CLOSED")

    def _time_out(self, attempt: int) -> None:
        if attempt != self._attempt or self._operation is None:
            return
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None
        self._end("info", "TIMED_OUT")

    def _end(self, outcome: str, error: str | None) -> None:
        operation = self._operation
        assert operation is not None
        self._operation = None
        operation.outcome = outcome
        operation.error = error
        operation.returned_us = self._scheduler.now_us
        self._workload.ended(self, operation)


class Connection(ClientEnd):
    """One connection of a client."""

    def __init__(
        self,
        client: Client,
        target: int,
        network: Network,
        connect: "Callable[[Connection], Pipe]",
    ) -> None:
        self._client = client
        super().__init__(client.host, target, network, connect)

    @override
    def answered(self, correlation_id: int, body: Any) -> None:
        self._client.answered(body)

    def closed(self, *, refused: bool) -> None:
        """Report the loss of the connection to the client."""
        if not self.is_closed:
            self.is_closed = True
            self._client.lost(self, refused=refused)


class Workload:
    """All clients, and the history of their operations."""

    def __init__(
        self,
        rng: Random,
        network: Network,
        scheduler: Scheduler,
        *,
        targets: tuple[int, ...],
        accept: Callable[[Connection], Pipe],
        on_acknowledged: Callable[[Operation], None],
        settings: Settings,
    ) -> None:
        self.history: list[Operation] = []
        self.open = accept
        self._rng = rng
        self._scheduler = scheduler
        self._targets = targets
        self._left = settings.write_count
        self._on_acknowledged = on_acknowledged
        self.is_stopped = False
        self._think_us = settings.think_us
        self.partition_count = settings.partition_count
        """Partitions of every topic that is created."""
        self.late_us = 0
        """Time after its client gave up in which a request may still arrive."""
        numbers = range(settings.client_count)
        self._clients = [Client(number, self, network, scheduler) for number in numbers]
        self._asker = Client(settings.client_count, self, network, scheduler)
        self.proofs: Proofs | None = None
        """Decides what answers prove; None: nothing, as in runs without lookups."""
        self.elections: Callable[[], int] = lambda: 0
        """Number of leaders that were elected so far."""
        self.linearizable_reads: LinearizableReads | None = None
        """Lookups are linearizable reads of a leader; None: they are Kafka requests to brokers."""
        self.note: Callable[[str], None] | None = None
        """Called with a line for each call and outcome."""
        self.choices: Choices | None = None
        """Draws the operations; None: creates and deletes of any name through any node."""

    def start(self) -> None:
        """Start every client somewhere in its first pause."""
        for client in self._clients:
            self._think(client)

    def _think(self, client: Client) -> None:
        delay = int(self._rng.expovariate(1.0) * self._think_us)
        self._scheduler.after(delay, lambda: self._next(client))

    def _next(self, client: Client) -> None:
        if self.is_stopped or self._left <= 0:
            return
        if self.choices is not None:
            self._choose(client, self.choices)
            return
        self._left -= 1
        self.submit(client, "create" if self._rng.random() < 0.65 else "delete")

    def _choose(self, client: Client, choices: Choices) -> None:
        """Run a drawn operation. Lookups do not count: there are as many writes as without them."""
        kind, name, target, value = choices.draw(self._scheduler.now_us)
        operation = Operation(
            client=client.host,
            kind=kind,
            name=name,
            called_us=self._scheduler.now_us,
            target=target,
            value=value,
            late_us=self.late_us,
        )
        if kind not in READS:
            self._left -= 1
        if self.proofs is not None:
            is_read = kind in READS
            operation.proof = self.proofs.of_lookup(target) if is_read else self.proofs.of_refusal()
        self.history.append(operation)
        client.run(operation, target)

    def submit(self, client: Client, kind: str) -> Operation:
        """Run one more operation now."""
        operation = Operation(
            client=client.host,
            kind=kind,
            name=topic_name(self._rng.randrange(NAMES)),
            called_us=self._scheduler.now_us,
            late_us=self.late_us,
        )
        self.history.append(operation)
        operation.target = self._rng.choice(self._targets)
        client.run(operation, operation.target)
        return operation

    def create_fresh(self, name: str, target: int) -> Operation:
        """Create a topic through a node as a client of its own, also after `is_stopped`."""
        operation = Operation(
            client=self._asker.host,
            kind="create",
            name=name,
            called_us=self._scheduler.now_us,
            target=target,
        )
        self.history.append(operation)
        self._asker.run(operation, target)
        return operation

    def ended(self, client: Client, operation: Operation) -> None:
        """Take the outcome of an operation."""
        if self.choices is not None:
            self.choices.ended(operation, self._scheduler.now_us)
        if operation.kind in READS:
            if operation.outcome == "ok" and not operation.proof:
                operation.outcome, operation.error = "fail", "STALE"
        elif operation.outcome == "ok":
            self._on_acknowledged(operation)
        elif operation.error in REFUSALS and self.proofs is not None:
            reign = operation.proof
            operation.is_observation = reign is not None and reign == self.proofs.reign()
        self.trace(operation, operation.outcome)
        if client is not self._asker:
            self._think(client)

    def trace(self, operation: Operation, what: str) -> None:
        """Write a line of the trace: `invoke`, or the outcome."""
        if self.note is None:
            return
        value = "" if operation.value is None else f" {operation.value}"
        error = "" if operation.error is None else f" {operation.error}"
        self.note(
            f"client {operation.client}: {what} {operation.kind} {operation.name}{value}{error} "
            f"at node {operation.target}"
        )

    @property
    def pending_count(self) -> int:
        """Operations without an outcome so far."""
        return sum(operation.returned_us is None for operation in self.history)
