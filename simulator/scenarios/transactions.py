"""Commands of scenarios of records about transactions: a producer and a reader that ask by hand.

`client=1` is a client from before transaction.version 2, which adds partitions by itself. The
topic of the coordinator is created as any other: `topic __transaction_state 101,102`.

Each command is described at its method.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from coordinator.transaction.metadata import TransactionMetadata
from simulator.checks.partitions.record_logs import whole_batches
from simulator.checks.partitions.transactional_ids import transactional_ids
from simulator.cluster.machine import WALL_MS
from simulator.records.requests import ALTER_PARTITION_REASSIGNMENTS, Producer, reassign
from simulator.records.transactions import requests
from simulator.records.transactions.consumer import committed_batches
from simulator.records.transactions.link import TransactionLink
from simulator.scenarios.command import Command, ScenarioError, to_ints
from simulator.scenarios.records_cluster import CLIENT_HOST, MS, ScenarioWorld
from simulator.scenarios.records_text import produced_text
from wire.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    PRODUCE,
    WRITE_TXN_MARKERS,
)
from wire.errors import ErrorCode

ANSWER_US: Final = 120_000_000
TIMEOUT_MS: Final = 60_000
ENDS: Final = {"commit": True, "abort": False}
DEFAULT_PARTITION: Final = "t-0"


class TransactionCommands:
    """Commands, with the connections of their client.

    Args:
        world: returns the cluster.
    """

    def __init__(self, world: Callable[[], ScenarioWorld]) -> None:
        self._world = world
        self._links: dict[tuple[int, int, bool], TransactionLink] = {}
        self.commands: dict[str, Callable[[Command], list[str] | None]] = {
            "init": self._init,
            "add": self._add,
            "write": self._write,
            "end": self._end,
            "read": self._read,
            "transactions": self._transactions,
            "marker": self._marker,
            "reassign": self._reassign,
        }

    def _ask(
        self, target: int, api_key: int, body: Any, answered: Callable[[Any], None], *, is_old: bool
    ) -> None:
        """Send a request on a connection for its API alone."""
        world, place = self._world(), (target, api_key, is_old)
        link = self._links.get(place)
        if link is None or link.is_closed:
            cluster = world.cluster
            link = TransactionLink(
                CLIENT_HOST,
                world.node(target).id,
                cluster.network,
                cluster.scheduler,
                cluster.connect,
                is_old=is_old,
            )
            self._links[place] = link
        link.request(api_key, body, answered, ANSWER_US)

    def _init(self, command: Command) -> None:
        """`init 101 x [timeout=MS] [producer=7 epoch=0]`: InitProducerId of a transactional id."""
        target, name = command.number(0, "node"), command.argument(1, "transactional id")
        given = _producer(command, -1)
        expected = given if given.producer_id >= 0 else None
        timeout_ms = command.number_option("timeout", TIMEOUT_MS)
        say = self._world().say

        def answered(body: Any) -> None:
            say(f"=> init {name}: {_producer_text(body)}")

        body = requests.init_producer_id(name, timeout_ms, expected)
        self._ask(target, INIT_PRODUCER_ID, body, answered, is_old=False)

    def _add(self, command: Command) -> None:
        """`add 101 x t-0 t-1 producer=7 [epoch=0]`: AddPartitionsToTxn; all of one topic."""
        target, name = command.number(0, "node"), command.argument(1, "transactional id")
        partitions = command.rest(2)
        topic = partitions[0].rpartition("-")[0]
        numbers = [int(each.rpartition("-")[2]) for each in partitions]
        say = self._world().say

        def answered(body: Any) -> None:
            rows = () if body is None else body.results_by_topic_v3_and_below
            codes = [row.partition_error_code for each in rows for row in each.results_by_partition]
            text = ", ".join(_name_of(code) for code in codes) or "no answer"
            say(f"=> add {name} {' '.join(partitions)}: {text}")

        body = requests.add_partitions(name, _producer(command), topic, numbers)
        self._ask(target, ADD_PARTITIONS_TO_TXN, body, answered, is_old=True)

    def _write(self, command: Command) -> None:
        """`write 101 x a b producer=7 [epoch=0] [sequence=0] [partition=t-0] [client=1]`.

        Produce of one batch of a transaction.
        """
        target, name = command.number(0, "node"), command.argument(1, "transactional id")
        values, world = command.rest(2), self._world()
        partition = command.option("partition", DEFAULT_PARTITION)
        topic_id, number = world.key_of(partition)
        is_old = command.number_option("client", 2) < requests.EPOCH_BUMP_VERSION
        contents = [value.encode() for value in values]
        records = requests.batch(
            contents,
            WALL_MS + world.now_us // MS,
            _producer(command),
            command.number_option("sequence", 0),
        )
        sent_us = world.now_us

        def answered(body: Any) -> None:
            world.say(produced_text(values, body).replace("=> produce", "=> write"))
            row = None if body is None else body.responses[0].partition_responses[0]
            if row is not None and row.error_code is ErrorCode.none:
                key = (bytes(topic_id), number)
                world.note_acknowledged(key, row.base_offset, contents, sent_us)

        topic = requests.Topic(partition.rpartition("-")[0], UUID(bytes=bytes(topic_id)))
        body = requests.produce(name, topic, number, records, is_old=is_old)
        self._ask(target, PRODUCE, body, answered, is_old=is_old)

    def _end(self, command: Command) -> None:
        """`end 101 x commit|abort producer=7 [epoch=0] [client=1]`: EndTxn."""
        target, name = command.number(0, "node"), command.argument(1, "transactional id")
        how = command.argument(2, "commit or abort")
        if how not in ENDS:
            raise ScenarioError(f"{how!r} is neither commit nor abort")
        is_old = command.number_option("client", 2) < requests.EPOCH_BUMP_VERSION
        say = self._world().say

        def answered(body: Any) -> None:
            say(f"=> end {name} {how}: {_producer_text(body)}")

        body = requests.end(name, _producer(command), is_commit=ENDS[how])
        self._ask(target, END_TXN, body, answered, is_old=is_old)

    def _read(self, command: Command) -> None:
        """`read 101 0 [partition=t-0]`: what a reader of committed records is given."""
        target, offset = command.number(0, "node"), command.number(1, "offset")
        world = self._world()
        topic_id, number = world.key_of(command.option("partition", DEFAULT_PARTITION))

        def answered(body: Any) -> None:
            row = None if body is None else body.responses[0].partitions[0]
            world.say(f"=> read {offset}: {_read_text(row)}")

        body = requests.fetch_committed(UUID(bytes=bytes(topic_id)), number, offset, -1)
        self._ask(target, FETCH, body, answered, is_old=False)

    def _marker(self, command: Command) -> None:
        """`marker 101 abort producer=7 [epoch=0] [coordinator=0] [client=1] [partition=t-0]`.

        WriteTxnMarkers, as an administrator sends it to a leader.
        """
        target, how = command.number(0, "node"), command.argument(1, "commit or abort")
        partition = command.option("partition", DEFAULT_PARTITION)
        topic, _, number = partition.rpartition("-")
        say, version = self._world().say, command.number_option("client", 2)

        def answered(body: Any) -> None:
            row = body.markers[0].topics[0].partitions[0]
            say(f"=> marker {how}: {_name_of(row.error_code)}")

        body = requests.marker(
            _producer(command),
            (topic, int(number)),
            is_commit=ENDS[how],
            coordinator_epoch=command.number_option("coordinator", 0),
            version=version if version >= requests.EPOCH_BUMP_VERSION else 0,
        )
        self._ask(target, WRITE_TXN_MARKERS, body, answered, is_old=False)

    def _reassign(self, command: Command) -> None:
        """`reassign t-0 103,102`: AlterPartitionReassignments of one partition."""
        topic, _, number = command.argument(0, "partition").rpartition("-")
        ids = to_ints(command.argument(1, "nodes"))
        world = self._world()

        def answered(body: Any) -> None:
            world.say(f"=> reassign: {_name_of(body.error_code)}")

        body = reassign(topic, int(number), ids)
        target = world.brokers[0]
        self._ask(target, ALTER_PARTITION_REASSIGNMENTS, body, answered, is_old=False)

    def _transactions(self, command: Command) -> list[str]:
        """`transactions`: the transactional ids of all coordinators."""
        assert command.name == "transactions", command.name
        return [
            f"{node} {name} {_transaction_text(metadata)}"
            for node, machine in self._world().nodes.items()
            for name, metadata in transactional_ids(machine)
        ]


def _producer(command: Command, default: int = 0) -> Producer:
    return Producer(
        command.number_option("producer", default), command.number_option("epoch", default)
    )


def _name_of(code: ErrorCode) -> str:
    return "ok" if code is ErrorCode.none else code.name


def _producer_text(body: Any) -> str:
    """Producer id and epoch of an answer, as far as it has them."""
    if body is None:
        return "no answer"
    if body.error_code is not ErrorCode.none or body.producer_id < 0:
        return _name_of(body.error_code)
    return f"producer={body.producer_id} epoch={body.producer_epoch}"


def _read_text(row: Any) -> str:
    if row is None:
        return "no answer"
    if row.error_code is not ErrorCode.none:
        return _name_of(row.error_code)
    aborted = [
        (int(each.first_offset), int(each.producer_id)) for each in row.aborted_transactions or ()
    ]
    content = whole_batches(bytes(row.records or b""))
    values = [
        (record.value or b"").decode()
        for batch in committed_batches(content, aborted)
        for record in batch.records()
    ]
    text = " ".join(values) or "nothing"
    return f"{text}, stable={row.last_stable_offset} hw={row.high_watermark}"


def _transaction_text(metadata: TransactionMetadata) -> str:
    words = [metadata.state.kafka_name, f"producer={metadata.producer_id}"]
    words.append(f"epoch={metadata.producer_epoch}")
    words += [f"{topic}-{number}" for topic, number in sorted(metadata.partitions)]
    return " ".join(words)
