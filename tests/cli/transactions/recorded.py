"""The cluster of the recorded runs of kafka-transactions, to make their outputs again.

Transactional ids are those of Kafka's transaction log, as its formatter printed it, up to the time
of a run: ListTransactions and DescribeTransactions are answered by our coordinator's handlers on
that image. Producers of partitions have no other source than the outputs of `describe-producers`
and `find-hanging` themselves.
"""

import gzip
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec

from broker.apis.transactions.transaction_lists import DescribeTransactions, ListTransactions
from cli.connect import UnreachableError
from cli.transactions import command
from coordinator.records.kinds import KINDS, TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from coordinator.transaction.metadata import TransactionMetadata, TransactionsImage, apply
from network.clock import Clock as NetworkClock
from network.clock import Now
from tests.broker.apis.requests import Broker as Named
from tests.broker.apis.requests import call_of
from tests.cli import comparison
from tests.cli.comparison import Run
from tests.cli.golden import FOLDER, Recorded, Verdict
from tests.cli.records import golden as records
from tests.cli.records.broker import INIT_PRODUCER_ID, Broker, Time
from tests.cli.records.coordinator_topics import objects, record_of
from tests.cli.records.recorded_topics import broker as topics_of
from wire.api_keys import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from wire.errors import ErrorCode
from wire.messages.codec import newest
from wire.messages.conversion import default_entity
from wire.types import NodeId

AT_MS = 1795394761568 + 57454
"""Time at which tx-open was described: start of its transaction in the log, and its duration."""
AT_MS_OF = {
    "find-hanging-topic": AT_MS + 6_000,
    "find-hanging-broker": AT_MS + 6_000,
    "describe-prepared": 1795394763025 + 77250,
}
"""Later runs; 61 minutes after the last record of the hanging transaction."""
PREPARED_MS = 1795394835876
"""Time at which tx-prepared was to commit: its CompleteCommit has the same, and came when
broker 102 was there again."""
PARTITION_COUNT = 2
"""Of `__transaction_state`."""


@cache
def outputs() -> dict[str, Recorded]:
    """All runs by name."""
    lines = gzip.decompress((FOLDER / "transactions.jsonl.gz").read_bytes()).splitlines()
    found = [msgspec.json.decode(line, type=Recorded) for line in lines]
    return {run.name.rpartition("/transactions-")[2]: run for run in found}


@cache
def verdicts() -> dict[str, Verdict]:
    """By the name of the run."""
    content = (FOLDER / "transactions-verdicts.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, Verdict])


@cache
def image_at(at_ms: int) -> TransactionsImage:
    """The ids as they were at a time: of each partition the records before the first later one."""
    run = records.outputs()["data-4.3.1/consumer-formatter-transactions"]
    image, ended = TransactionsImage(), set()
    for row in objects(run.stdout):
        name = row["key"]["data"]["transactionalId"]
        number = partition_for(name, PARTITION_COUNT)
        value = row["value"]
        if value is not None and value["data"]["transactionLastUpdateTimestampMs"] > at_ms:
            ended.add(number)
        if number not in ended:
            image = apply(image, record_of(KINDS[TRANSACTION_STATE][0], row))
    return image


class Coordinator:
    """The coordinator of all ids, as the handlers of a broker see it."""

    loading_count = 0

    def __init__(self, image: TransactionsImage) -> None:
        self._image = image

    def active(self) -> list[Any]:
        return [SimpleNamespace(committed=self._image)]

    def find(self, name: str) -> TransactionMetadata | ErrorCode:
        return self._image.transactions.get(name, ErrorCode.transactional_id_not_found)


class WallTime(Time):
    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self._wall_ms = at_ms

    def wall_ms(self) -> int:
        return self._wall_ms + self.at_ms


def made(api_key: int, name: str, /, **fields: Any) -> Any:
    """An entity of a response, defaults in what is not given."""
    return replace(default_entity(getattr(newest(api_key, "response"), name)), **fields)


class Cluster(Broker):
    """The cluster of the commands: broker 1 coordinates and leads.

    `errors` of FindCoordinator, InitProducerId, WriteTxnMarkers, DescribeProducers and of the lists
    are given by the test.
    """

    def __init__(self, image: TransactionsImage, at_ms: int) -> None:
        super().__init__()
        self.topics = topics_of().topics
        self.clock = WallTime(at_ms)
        self.producers: dict[tuple[str, int], list[dict[str, int]]] = {}
        """By partition: fields of the answer."""
        self.has_ongoing = False
        """The first InitProducerId finds a transaction, which it aborts."""
        coordinator: Any = Coordinator(image)
        access = Named().access
        listing = ListTransactions(coordinator, access, NetworkClock(Now(0, at_ms)))
        describing = DescribeTransactions(coordinator, access)
        self.answers |= {
            LIST_TRANSACTIONS: lambda _, body: self._served(LIST_TRANSACTIONS, 2, listing, body),
            DESCRIBE_TRANSACTIONS: lambda _, body: self._served(
                DESCRIBE_TRANSACTIONS, 0, describing, body
            ),
            FIND_COORDINATOR: self._found,
            DESCRIBE_PRODUCERS: self._described,
            WRITE_TXN_MARKERS: self._written,
            INIT_PRODUCER_ID: self._initialized,
        }

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        if node not in (None, 1):
            raise UnreachableError(f"node {node} is not known to the cluster")
        return super().call(api_key, body, node)

    def bodies(self, api_key: int) -> list[Any]:
        """Requests of an API."""
        return [body for key, body in self.asked if key == api_key]

    def _served(self, api_key: int, version: int, handler: Any, body: Any) -> Any:
        code = self.error_of(api_key)
        if code and api_key == LIST_TRANSACTIONS:
            return made(api_key, "ListTransactionsResponse", error_code=ErrorCode(code))
        answers: list[Any] = []
        handler.serve(call_of(api_key, version, body, answers))
        (answer,) = answers
        if code:
            (row,) = answer.transaction_states
            row = replace(row, error_code=ErrorCode(code))
            answer = replace(answer, transaction_states=(row,))
        return answer

    def _found(self, _: Broker, body: Any) -> Any:
        assert body.key_type == 1
        code = ErrorCode(self.error_of(FIND_COORDINATOR))
        row = made(FIND_COORDINATOR, "Coordinator", key=body.coordinator_keys[0],
                   node_id=NodeId(1), error_code=code)  # fmt: skip
        return made(FIND_COORDINATOR, "FindCoordinatorResponse", coordinators=(row,))

    def _initialized(self, _: Broker, body: Any) -> Any:
        code = self.error_of(INIT_PRODUCER_ID)
        return made(INIT_PRODUCER_ID, "InitProducerIdResponse", error_code=ErrorCode(code),
                    producer_id=9, producer_epoch=2)  # fmt: skip

    def _described(self, _: Broker, body: Any) -> Any:
        topics = []
        for topic in body.topics:
            rows = tuple(self._row(str(topic.name), number) for number in topic.partition_indexes)
            topics.append(
                made(DESCRIBE_PRODUCERS, "TopicResponse", name=topic.name, partitions=rows)
            )
        return made(DESCRIBE_PRODUCERS, "DescribeProducersResponse", topics=tuple(topics))

    def _row(self, topic: str, number: int) -> Any:
        code = self.error_of(DESCRIBE_PRODUCERS)
        producers = tuple(
            made(DESCRIBE_PRODUCERS, "ProducerState", **fields)
            for fields in self.producers.get((topic, number), ())
        )
        return made(DESCRIBE_PRODUCERS, "PartitionResponse", partition_index=number,
                    error_code=ErrorCode(code), active_producers=producers)  # fmt: skip

    def _written(self, _: Broker, body: Any) -> Any:
        (marker,) = body.markers
        (topic,) = marker.topics
        (number,) = topic.partition_indexes
        code = ErrorCode(self.error_of(WRITE_TXN_MARKERS))
        row = made(WRITE_TXN_MARKERS, "WritableTxnMarkerPartitionResult",
                   partition_index=number, error_code=code)  # fmt: skip
        result = made(WRITE_TXN_MARKERS, "WritableTxnMarkerTopicResult", name=topic.name,
                      partitions=(row,))  # fmt: skip
        by_marker = made(WRITE_TXN_MARKERS, "WritableTxnMarkerResult",
                         producer_id=marker.producer_id, topics=(result,))  # fmt: skip
        return made(WRITE_TXN_MARKERS, "WriteTxnMarkersResponse", markers=(by_marker,))


def cluster(name: str = "") -> Cluster:
    """The cluster of a run."""
    at_ms = AT_MS_OF.get(name, AT_MS)
    image = image_at(min(at_ms, PREPARED_MS))
    if name == "describe-prepared":  # broker 1 has its marker already, broker 102 is down
        of_id = image.transactions["tx-prepared"]
        left = msgspec.structs.replace(of_id, partitions=of_id.partitions - {("payments", 0)})
        image = msgspec.structs.replace(
            image, transactions=image.transactions.set("tx-prepared", left)
        )
    made_here = Cluster(image, at_ms)
    made_here.producers = {
        ("payments", 0): _producers("describe-producers", PRODUCERS),
        ("orders", 1): _producers("find-hanging-topic", HANGING),
    }
    if name == "terminate":  # its transaction was open
        assert image.transactions["tx-to-terminate"].state.kafka_name == "Ongoing"
        made_here.errors.append((INIT_PRODUCER_ID, 51))
    if name == "list-prepared":
        made_here.refused.append(LIST_TRANSACTIONS)
    return made_here


PRODUCERS = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence",
             "last_timestamp", "current_txn_start_offset")  # fmt: skip
HANGING = (None, None, "producer_id", "producer_epoch", "coordinator_epoch",
           "current_txn_start_offset", "last_timestamp", None)  # fmt: skip


def _producers(name: str, columns: tuple[str | None, ...]) -> list[dict[str, int]]:
    """The producers that an output lists."""
    rows = [line.split("\t") for line in outputs()[name].stdout.splitlines()[1:]]
    return [
        {
            column: -1 if cell.strip() == "None" else int(cell)
            for column, cell in zip(columns, row, strict=False)
            if column is not None
        }
        for row in rows
    ]


def replay(name: str) -> tuple[Run, Cluster]:
    """Our command with the recorded command line, and what it asked."""
    met = cluster(name)
    return records.run_command(command.run, outputs()[name].args, met), met


def without_order(run: Run) -> Run:
    """The order of rows, and of partitions in one."""
    exit_code, out, err = run
    rows = [
        "\t".join(",".join(sorted(cell.split(","))) for cell in line.split("\t"))
        for line in out.splitlines()
    ]
    return exit_code, "\n".join(sorted(rows)), err


def without_log(run: Run) -> Run:
    """Lines that Kafka's client logs."""
    return records.without_log_frame(run)


def without_usage(run: Run) -> Run:
    """Usage text, which comes before the error or behind its first line, and its line breaks."""
    exit_code, out, err = records.without_usage(run)
    return exit_code, out, " ".join(err.split())


APART = {"usage": without_usage, "log": without_log, "order": without_order}


def apart_from(ours: Run, recorded: Recorded) -> tuple[str, ...] | None:
    """The fewest things that must be left out for equality: () is equal, None is different."""
    return comparison.apart_from(ours, recorded, APART)
