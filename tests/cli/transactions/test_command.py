"""`transactions` where no recorded output goes: refusals, retries, scopes."""

import pytest

from cli.records.clients.coordinator_calls import INIT_PRODUCER_ID
from cli.records.clients.leader_calls import API_TIMEOUT_MS
from cli.records.clients.topic_metadata import METADATA, Partition
from cli.transactions import command, hanging
from cli.transactions.hanging import OpenTransaction
from cli.transactions.listings import Description
from cli.transactions.producers import Producer
from cli.transactions.table import Column, printed
from tests.cli.comparison import Run
from tests.cli.records.broker import Log
from tests.cli.records.golden import run_command
from tests.cli.transactions.recorded import AT_MS, Cluster, cluster
from wire.api_keys import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)

DETAIL = ". Enable debug logging for additional detail.\n"
ORDERS = ["--topic", "orders", "--partition", "1"]
DESCRIBE = ["describe", "--transactional-id", "tx-open"]
TERMINATE = ["forceTerminateTransaction", "--transactionalId", "x"]
ABORT = ["abort", *ORDERS, "--start-offset", "0"]
SPEC = (
    "AbortTransactionSpec(topicPartition=orders-1, producerId=22, producerEpoch=0, "
    "coordinatorEpoch=0)"
)


def run(met: Cluster, *words: str) -> Run:
    return run_command(command.run, ["--bootstrap-server", "h:1", *words], met)


def said(met: Cluster, *words: str) -> str:
    """The refusal of a command."""
    code, out, err = run(met, *words)
    assert (code, out) == (1, "")
    return err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--start-offset", "1"], ("Could not find any open transactions starting at offset 1 on "
         "partition orders-1\n")),
        (["--producer-id", "1"], "Missing required argument --producer-epoch\n"),
        (["--producer-id", "1", "--producer-epoch", "0"],
         "Missing required argument --coordinator-epoch\n"),
    ],
)  # fmt: skip
def test_an_abort_that_names_no_transaction(words: list[str], text: str) -> None:
    assert said(cluster(), "abort", *ORDERS, *words) == text


@pytest.mark.parametrize(("given", "sent"), [("-1", 0), ("0", 0), ("5", 5)])
def test_an_abort_in_the_form_for_old_brokers_asks_for_no_producers(given: str, sent: int) -> None:
    met = cluster()
    words = ["--producer-id", "7", "--producer-epoch", "3", f"--coordinator-epoch={given}"]
    assert run(met, "abort", *ORDERS, *words) == (0, "", "")
    assert met.bodies(DESCRIBE_PRODUCERS) == []
    (body,) = met.bodies(WRITE_TXN_MARKERS)
    (marker,) = body.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, sent)


def test_the_coordinator_epoch_of_a_producer_is_taken_over() -> None:
    met = cluster()
    met.producers["orders", 1][0]["coordinator_epoch"] = 4
    assert run(met, *ABORT) == (0, "", "")
    assert met.bodies(WRITE_TXN_MARKERS)[0].markers[0].coordinator_epoch == 4


@pytest.mark.parametrize(
    ("words", "api_key", "code", "text"),
    [
        (["list"], LIST_TRANSACTIONS, 15, ("Failed to list transactions: ListTransactions request "
         "sent to broker 1 failed with an unexpected exception: The coordinator is not "
         "available.")),
        (DESCRIBE, DESCRIBE_TRANSACTIONS, 53, ("Failed to describe transaction state of "
         "transactional-id `tx-open`: DescribeTransactions request for transactionalId `tx-open` "
         "failed due to authorization failure")),
        (DESCRIBE, DESCRIBE_TRANSACTIONS, 42, ("Failed to describe transaction state of "
         "transactional-id `tx-open`: DescribeTransactions request for transactionalId `tx-open` "
         "failed due to unexpected error: This most likely occurs because of a request being "
         "malformed by the client library or the message was sent to an incompatible broker. See "
         "the broker logs for more details.")),
        (TERMINATE, FIND_COORDINATOR, 53, ("Failed to force terminate transactionalId `x`: "
         "FindCoordinator request for transactionalId `x` failed due to authorization failure")),
        (TERMINATE, FIND_COORDINATOR, 90, ("Failed to force terminate transactionalId `x`: "
         "FindCoordinator request for transactionalId `x` failed due to unexpected error: There "
         "is a newer producer with the same transactionalId which fences the current one.")),
        (TERMINATE, INIT_PRODUCER_ID, 53, ("Failed to force terminate transactionalId `x`: "
         "InitProducerId request for transactionalId `x` failed due to transactional ID "
         "authorization failure")),
        (TERMINATE, INIT_PRODUCER_ID, 50, ("Failed to force terminate transactionalId `x`: "
         "InitProducerId request for transactionalId `x` failed due to unexpected error: The "
         "transaction timeout is larger than the maximum value allowed by the broker (as "
         "configured by transaction.max.timeout.ms).")),
        (ABORT, DESCRIBE_PRODUCERS, 29, ("Failed to validate producer state for partition "
         "orders-1: Failed to describe active producers for partition orders-1 due to "
         "authorization failure on topic `orders`")),
        (ABORT, WRITE_TXN_MARKERS, 31, (f"Failed to abort transaction {SPEC}: WriteTxnMarkers "
         f"request with {SPEC} failed due to cluster authorization error")),
        (ABORT, WRITE_TXN_MARKERS, 47, (f"Failed to abort transaction {SPEC}: WriteTxnMarkers "
         f"request with {SPEC} failed due an invalid producer epoch")),
        (ABORT, WRITE_TXN_MARKERS, 52, (f"Failed to abort transaction {SPEC}: WriteTxnMarkers "
         f"request with {SPEC} failed since the provided coordinator epoch 0 has been fenced by "
         "the active coordinator")),
        (ABORT, WRITE_TXN_MARKERS, 48, (f"Failed to abort transaction {SPEC}: WriteTxnMarkers "
         f"request with {SPEC} failed due to unexpected error: The producer attempted a "
         "transactional operation in an invalid state.")),
        (["describe-producers", *ORDERS, "--broker-id", "1"], DESCRIBE_PRODUCERS, 6,
         ("Failed to describe producers for partition orders-1 on broker 1: Failed to describe "
         "active producers for partition orders-1 on brokerId 1")),
        (["describe-producers", *ORDERS], DESCRIBE_PRODUCERS, 29,
         ("Failed to describe producers for partition orders-1 on leader: Failed to describe "
         "active producers for partition orders-1 due to authorization failure on topic `orders`")),
        (["find-hanging", "--topic", "orders"], DESCRIBE_PRODUCERS, 29,
         ("Failed to describe producers for 3 partitions on broker Optional.empty: Failed to "
         "describe active producers for partition orders-0 due to authorization failure on topic "
         "`orders`")),
        (["find-hanging", "--topic", "orders", "--partition", "1", "--broker-id", "1"],
         DESCRIBE_PRODUCERS, 29,
         ("Failed to describe producers for 1 partitions on broker Optional[1]: Failed to "
         "describe active producers for partition orders-1 due to authorization failure on topic "
         "`orders`")),
        (["find-hanging", "--topic", "orders"], LIST_TRANSACTIONS, 15,
         ("Failed to list transactions for 1 producers: ListTransactions request sent to broker 1 "
         "failed with an unexpected exception: The coordinator is not available.")),
    ],
)  # fmt: skip
def test_a_refusal_in_the_words_of_kafka(
    words: list[str], api_key: int, code: int, text: str
) -> None:
    met = cluster("find-hanging-topic")
    met.errors.append((api_key, code))
    assert said(met, *words) == text + DETAIL


@pytest.mark.parametrize(
    ("words", "api_key", "code"),
    [
        (["list"], LIST_TRANSACTIONS, 14),
        (DESCRIBE, FIND_COORDINATOR, 15),
        (DESCRIBE, DESCRIBE_TRANSACTIONS, 16),
        (TERMINATE, INIT_PRODUCER_ID, 14),
        (ABORT, DESCRIBE_PRODUCERS, 6),
        (ABORT, WRITE_TXN_MARKERS, 6),
    ],
)
def test_what_moves_or_loads_is_asked_again(words: list[str], api_key: int, code: int) -> None:
    met = cluster()
    met.errors.append((api_key, code))
    assert run(met, *words)[0] == 0
    assert len(met.bodies(api_key)) == 2
    assert met.clock.now_ms() == 100
    met = cluster()
    met.errors += [(api_key, code)] * 100
    assert run(met, *words)[0] == 1
    assert met.clock.now_ms() == API_TIMEOUT_MS


def test_a_coordinator_that_cannot_be_reached_is_looked_for_again() -> None:
    met = cluster()
    met.refused += [DESCRIBE_TRANSACTIONS]
    assert run(met, *DESCRIBE)[0] == 0
    assert len(met.bodies(FIND_COORDINATOR)) == 2
    met.refused += [DESCRIBE_TRANSACTIONS] * 100
    assert "h:1: Connection refused. Enable" in said(met, *DESCRIBE)


def test_flags_become_filters() -> None:
    met = cluster()
    run(met, "list")
    run(met, "list", "--duration-filter=-1")
    run(met, "list", "--duration-filter", "0", "--transactional-id-pattern", "a|b")
    shown = [(b.duration_filter, b.transactional_id_pattern) for b in met.bodies(LIST_TRANSACTIONS)]
    assert shown == [(-1, None), (-1, None), (0, "a|b")]
    assert all(body.producer_id_filters == () for body in met.bodies(LIST_TRANSACTIONS))


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--topic", "payments"], {("payments", 0), ("payments", 1)}),
        (["--topic", "payments", "--partition", "1"], {("payments", 1)}),
        (["--topic", "t", "--broker-id", "2"], set()),
    ],
)
def test_the_scope_of_a_search(words: list[str], asked: set[tuple[str, int]]) -> None:
    met = cluster()
    met.topics["t"] = met.topics["orders"]
    assert run(met, "find-hanging", *words)[0] == 0
    found = {
        (str(topic.name), int(number))
        for body in met.bodies(DESCRIBE_PRODUCERS)
        for topic in body.topics
        for number in topic.partition_indexes
    }
    assert found == asked
    assert met.bodies(LIST_TRANSACTIONS) == [], "nothing is old"


def test_a_search_of_a_broker_asks_for_500_partitions_at_a_time() -> None:
    met = cluster()
    met.topics = {"t": met.topics["orders"]}
    met.topics["t"].name = "t"
    met.topics["t"].logs = [Log() for _ in range(1_001)]
    assert run(met, "find-hanging", "--broker-id", "1")[0] == 0
    counts = [len(b.topics[0].partition_indexes) for b in met.bodies(DESCRIBE_PRODUCERS)]
    assert counts == [500, 500, 1]


def test_a_search_needs_a_topic_for_its_partition_and_one_that_exists() -> None:
    met = cluster()
    words = ["find-hanging", "--broker-id", "1", "--partition", "1"]
    assert said(met, *words) == "The --partition argument requires --topic to be provided\n"
    assert met.asked == []
    assert said(met, "find-hanging", "--topic", "nope") == (
        f"Failed to describe 1 topics: This server does not host this topic-partition.{DETAIL}"
    )
    met.refused.append(METADATA)
    assert said(met, "find-hanging", "--broker-id", "1") == (
        f"Failed to list topics: h:1: Connection refused{DETAIL}"
    )


def test_the_age_of_a_candidate_is_that_of_its_last_record() -> None:
    met = cluster()
    producer = met.producers["orders", 1][0]
    producer["last_timestamp"] = AT_MS - 60_000
    words = ["find-hanging", "--topic", "orders", "--max-transaction-timeout", "1", "--json"]
    assert run(met, *words)[1] == '{"hanging":[]}\n'
    producer["last_timestamp"] -= 1
    assert '"duration_minutes":1}' in run(met, *words)[1]


def open_at(partition: Partition, producer_id: int) -> OpenTransaction:
    return OpenTransaction(
        partition,
        Producer(
            producer_id=producer_id, producer_epoch=0, coordinator_epoch=-1, last_sequence=0,
            last_timestamp_ms=0, start_offset=0,
        ),
    )  # fmt: skip


def test_a_transaction_hangs_unless_its_id_has_the_partition() -> None:
    here, there = Partition("t", 0), Partition("t", 1)
    description = Description(
        coordinator_id=1, transactional_id="x", producer_id=7, producer_epoch=0, state="Ongoing",
        timeout_ms=1, start_ms=1, partitions=(here,),
    )  # fmt: skip
    expected, other = open_at(here, 7), open_at(there, 7)
    nobody, forgotten = open_at(here, 8), open_at(here, 9)
    candidates = [expected, other, nobody, forgotten]
    ids = {7: "x", 9: "gone"}
    assert hanging.hanging(candidates, ids, {"x": description}) == [other, nobody, forgotten]


def test_refusals_of_command_lines() -> None:
    for words, text in (
        (["list"], "argument --bootstrap-server is required"),
        (["--bootstrap-server", "h:1", "describe-producers", "--topic", "t"],
         "argument --partition is required"),
        (["--bootstrap-server", "h:1", "abort", "--partition", "1"],
         "argument --topic is required"),
        (["--bootstrap-server", "h:1", "forceTerminateTransaction"],
         "argument --transactionalId is required"),
    ):  # fmt: skip
        code, out, err = run_command(command.run, words, cluster())
        assert (code, out) == (1, "")
        assert err.splitlines()[0] == text


def test_a_table_is_as_wide_as_its_widest_cell_and_json_has_names() -> None:
    columns = [Column("A", "a"), Column("Long", "long")]
    rows = [(12, None), ("b", (Partition("t", 1), Partition("u", 2)))]
    assert printed(columns, rows, "rows", as_json=False).text == (
        "A \tLong   \t\n12\tNone   \t\nb \tt-1,u-2\t\n"
    )
    assert printed(columns, rows, "rows", as_json=True).text == (
        '{"rows":[{"a":12,"long":null},'
        '{"a":"b","long":[{"topic":"t","partition":1},{"topic":"u","partition":2}]}]}\n'
    )
