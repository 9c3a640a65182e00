"""`transactions` and transactional producing against a whole broker of ours in memory."""

import json
from typing import Any

import pytest

from cli.records import producer_perf_test
from cli.transactions import command
from tests.cli.records.golden import run_command
from tests.cli.transactions.real_broker import RealBroker
from tests.storage.test_unified_log import produced
from wire.api_keys import END_TXN, PRODUCE
from wire.batches.batch import TRANSACTIONAL_BIT, iterate_batches
from wire.types import TopicId

SERVER = ["--bootstrap-server", "h:1"]
PERF = ["--topic", "orders", "--num-records", "6", "--record-size", "3", "--throughput", "2"]
ORDERS = TopicId(bytes(15) + b"\1")
MINUTE_MS = 60_000


def rows(broker: RealBroker, *words: str) -> list[dict[str, Any]]:
    """The rows of a command, as JSON."""
    code, out, err = run_command(command.run, [*SERVER, *words, "--json"], broker)
    assert (code, err) == (0, ""), err
    (found,) = json.loads(out).values()
    return found


def perf(broker: RealBroker, *words: str) -> tuple[int, str, str]:
    return run_command(producer_perf_test.run, [*SERVER, *PERF, *words], broker)


def written(broker: RealBroker) -> list[Any]:
    """Batches of the partition."""
    partition = broker.driven.broker._local.partition((ORDERS, 0))
    assert partition is not None
    assert partition.log is not None
    log = partition.log.log
    return list(iterate_batches(log.read(0, 1 << 20)))


def hang(broker: RealBroker) -> None:
    """Records of a transaction that no coordinator knows, as leaders took them before KIP-890."""
    batch = produced(broker.clock.wall_ms(), producer=500, epoch=3, attributes=TRANSACTIONAL_BIT)
    broker.driven.broker._replicas.append(
        {(ORDERS, 0): batch}, required_acks=1, timeout_ms=0, answer=lambda _: None
    )
    broker.pass_ms(1)


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    broker = RealBroker(verifies=False, orders=1)
    hang(broker)
    assert rows(broker, "find-hanging", "--topic", "orders") == [], "it is young"
    assert rows(broker, "list") == []
    broker.pass_ms(15 * MINUTE_MS)
    assert (
        rows(broker, "find-hanging", "--topic", "orders", "--max-transaction-timeout", "16") == []
    )
    for scope in (["--topic", "orders"], ["--topic", "orders", "--partition", "0"],
                  ["--broker-id", "1"]):  # fmt: skip
        (found,) = rows(broker, "find-hanging", *scope)
        assert (found["topic"], found["partition"], found["producer_id"]) == ("orders", 0, 500)
        assert (found["start_offset"], found["duration_minutes"]) == (0, 15)
    (producer,) = rows(broker, "describe-producers", "--topic", "orders", "--partition", "0")
    assert (producer["producer_epoch"], producer["transaction_start_offset"]) == (3, 0)
    assert (
        rows(broker, "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0") == []
    )
    assert rows(broker, "find-hanging", "--broker-id", "1") == []
    assert written(broker)[-1].header.is_control
    (producer,) = rows(broker, "describe-producers", "--topic", "orders", "--partition", "0")
    assert producer["transaction_start_offset"] is None


def test_a_transaction_that_is_open_at_its_coordinator_does_not_hang() -> None:
    broker = RealBroker(verifies=False, orders=1)
    code, _, err = perf(broker, "--transactional-id", "p", "--transaction-duration-ms", "1000000")
    assert code == 0, err
    hang(broker)
    broker.pass_ms(15 * MINUTE_MS)
    (found,) = rows(broker, "find-hanging", "--topic", "orders")
    assert found["producer_id"] == 500
    (listed,) = rows(broker, "list")
    assert (listed["transactional_id"], listed["state"]) == ("p", "CompleteCommit")
    assert rows(broker, "list", "--duration-filter", str(16 * MINUTE_MS)) == []
    assert rows(broker, "list", "--transactional-id-pattern", "q.*") == []


def test_records_are_committed_whenever_a_transaction_has_lasted_for_long() -> None:
    """Two records a second, so that the third and the sixth come a second late."""
    broker = RealBroker(orders=1)
    code, out, err = perf(broker, "--transactional-id", "p", "--transaction-duration-ms", "1000")
    assert (code, err) == (0, "")
    assert out.startswith("6 records sent, ")
    shown = [
        (b.header.is_control, b.header.producer_epoch, b.header.base_sequence)
        for b in written(broker)
    ]
    ends = [body for key, body in broker.asked if key == END_TXN]
    assert [(end.producer_epoch, end.committed) for end in ends] == [(0, True), (1, True)]
    assert [epoch for is_control, epoch, _ in shown if is_control] == [1, 2]
    data = [(epoch, first) for is_control, epoch, first in shown if not is_control]
    assert data == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert all(b.header.is_transactional for b in written(broker))
    produced = [body for key, body in broker.asked if key == PRODUCE]
    assert {body.transactional_id for body in produced} == {"p"}
    (described,) = rows(broker, "describe", "--transactional-id", "p")
    assert (described["state"], described["producer_epoch"]) == ("CompleteCommit", 2)
    assert described["timeout_ms"] == 60_000


def test_the_last_transaction_ends_with_the_records_and_time_out_and_id_may_be_chosen() -> None:
    broker = RealBroker(orders=1)
    properties = ["--producer-props", "transactional.id=q", "transaction.timeout.ms=7000"]
    assert perf(broker, *properties)[0] == 0
    (described,) = rows(broker, "describe", "--transactional-id", "q")
    assert (described["state"], described["timeout_ms"]) == ("CompleteCommit", 7_000)
    assert len([key for key, _ in broker.asked if key == END_TXN]) == 1, "within 3 s"
    assert perf(broker, "--transaction-duration-ms", "9000")[0] == 0
    drawn = {each["transactional_id"] for each in rows(broker, "list")} - {"q"}
    assert [name.startswith("performance-producer-") for name in drawn] == [True]


def test_the_flag_outranks_the_property() -> None:
    broker = RealBroker(orders=1)
    assert perf(broker, "--transactional-id", "a", "--producer-props", "transactional.id=b")[0] == 0
    assert [each["transactional_id"] for each in rows(broker, "list")] == ["a"]


def test_a_termination_fences_the_producer() -> None:
    broker = RealBroker(orders=1)
    assert perf(broker, "--transactional-id", "p")[0] == 0
    assert rows(broker, "forceTerminateTransaction", "--transactionalId", "p") == []
    (described,) = rows(broker, "describe", "--transactional-id", "p")
    assert (described["state"], described["producer_epoch"]) == ("Empty", 2)
    assert (described["start_ms"], described["duration_ms"], described["partitions"]) == (
        None, None, [],
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_an_older_transaction_version_is_refused(version: int) -> None:
    broker = RealBroker(transaction_version=version, orders=1)
    code, out, err = perf(broker, "--transactional-id", "p")
    assert (code, out) == (1, "")
    assert err == (
        f"transactions need transaction.version 2, which this cluster has at {version}\n"
    )


def test_a_record_that_fails_aborts_its_transaction() -> None:
    broker = RealBroker(orders=1)
    words = [*SERVER, "--topic", "orders", "--num-records", "2", "--throughput", "-1"]
    words += ["--record-size", "2000", "--transactional-id", "p"]
    properties = ["--producer-props", "max.request.size=1000"]
    code, _, err = run_command(producer_perf_test.run, [*words, *properties], broker)
    assert code == 1
    assert err.splitlines()[-1].startswith(
        "Cannot execute transactional method because we are in an error state: The message is "
    )
    (end,) = [body for key, body in broker.asked if key == END_TXN]
    assert end.committed is False
    assert run_command(producer_perf_test.run, [*words, "--producer-props", "acks=1"], broker) == (
        1,
        "",
        "Cannot set a transactional.id without also enabling idempotence.\n",
    )
