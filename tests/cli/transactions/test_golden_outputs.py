"""Every recorded output of kafka-transactions, made again: equal, or known why not."""

from pathlib import Path

import pytest

from tests.cli.records.golden import outputs as records_outputs
from tests.cli.transactions import recorded
from tests.cli.transactions.recorded import apart_from, outputs, replay, verdicts
from tests.cli.transactions.table import APART, table
from wire.api_keys import INIT_PRODUCER_ID, LIST_TRANSACTIONS, WRITE_TXN_MARKERS
from wire.types import milliseconds

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cli.md"
REPLAYED = sorted(name for name, held in verdicts().items() if held.verdict != "no answer")


@pytest.mark.parametrize("name", REPLAYED)
def test_output(name: str) -> None:
    run, held = outputs()[name], verdicts()[name]
    ours, _ = replay(name)
    found = apart_from(ours, run)
    if held.verdict == "differs":
        assert found is None, f"no longer different, apart from {found}"
        assert ours[0] == run.exit
        assert held.why
    else:
        assert found is not None, f"{ours=}"
        assert list(found) == held.apart
        assert held.verdict == ("apart" if held.apart else "equal")


def test_every_output_has_a_verdict() -> None:
    assert verdicts().keys() == outputs().keys()
    assert len(outputs()) == 25
    assert all(verdicts()[name].why for name in verdicts().keys() - set(REPLAYED))


def test_the_table_of_the_document_says_the_same() -> None:
    assert APART.keys() == recorded.APART.keys()
    assert table() in DOCUMENT.read_text(encoding="utf-8")


def test_the_log_of_kafka_decides_what_hangs() -> None:
    _, met = replay("find-hanging-topic")
    (listing,) = met.bodies(LIST_TRANSACTIONS)
    assert list(listing.producer_id_filters) == [22]
    image = recorded.image_at(recorded.AT_MS)
    assert sorted(image.transactions) == [
        "tx-open", "tx-prepare-abort", "tx-prepared", "tx-to-terminate",
    ]  # fmt: skip
    assert 22 not in {each.producer_id for each in image.transactions.values()}


def test_the_marker_of_an_abort_is_for_the_producer_at_the_offset() -> None:
    _, met = replay("abort-hanging")
    (body,) = met.bodies(WRITE_TXN_MARKERS)
    (marker,) = body.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (22, 0, 0)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)
    (topic,) = marker.topics
    assert (topic.name, tuple(topic.partition_indexes)) == ("orders", (1,))


def test_a_termination_asks_until_the_transaction_has_ended_as_in_the_log_of_kafka() -> None:
    _, met = replay("terminate")
    first, second = met.bodies(INIT_PRODUCER_ID)
    assert first == second
    assert (first.transactional_id, first.producer_id, first.producer_epoch) == (
        "tx-to-terminate", -1, -1,
    )  # fmt: skip
    printed = records_outputs()["data-4.3.1/consumer-formatter-transactions"].stdout
    timeout_ms = milliseconds(first.transaction_timeout)
    assert f'"producerEpoch":2,"transactionTimeoutMs":{timeout_ms},' in printed
