"""Fetches of consumers that may read from the follower in their rack (KIP-392)."""

import msgspec
import pytest

from tests.broker.apis.records import Records, answer_of, fetched_rows, key_of
from tests.replication.partitions import LAG_MS, registration
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode

NONE = ErrorCode.none
THREE = {"isr": (1, 2, 3), "replicas": (1, 2, 3)}
HERE = -1


def three(*, records=3, reads_in_rack=True, **fields):
    """Brokers 1 to 3, each in the rack of its number; the followers have all records."""
    broker = Records(reads_in_rack=reads_in_rack)
    for node_id in (1, 2, 3):
        broker.broker(node_id, rack=f"rack-{node_id}")
    broker.topic(**(THREE | fields))
    for _ in range(records):
        broker.append([key_of("t")])
    follow(broker, 2, records)
    follow(broker, 3, records)
    return broker


def follow(broker, node_id, offset, log_start_offset=0, **values):
    row = {"partition": 0, "fetch_offset": offset, "log_start_offset": log_start_offset}
    broker.ask({"t": [row]}, replica_id=node_id, replica_epoch=10 + node_id, version=15, **values)


def preferred(broker, offset=0, *, rack="rack-2", version=12, **values):
    asked = broker.ask({"t": [(0, offset)]}, rack_id=rack, version=version, **values)
    (row,) = fetched_rows(asked, version).values()
    assert row.error_code is NONE
    return row.preferred_read_replica


@pytest.mark.parametrize("version", range(11, 19))
def test_a_consumer_is_sent_to_the_follower_in_its_rack(version):
    broker = three()
    asked = broker.ask({"t": [(0, 1)]}, rack_id="rack-2", version=version)
    (row,) = fetched_rows(asked, version).values()
    assert (row.error_code, row.preferred_read_replica, row.records or b"") == (NONE, 2, b"")
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)
    assert row.aborted_transactions is None


def test_a_consumer_whose_version_has_no_rack_reads_here():
    broker = three()
    asked = broker.ask({"t": [(0, 0)]}, rack_id="rack-2", version=10)
    (row,) = fetched_rows(asked, 10).values()
    assert len(list(iterate_batches(row.records))) == 3


@pytest.mark.parametrize("rack", ["", "rack-1", "rack-4"])
def test_consumers_of_other_racks_read_here(rack):
    broker = three()
    asked = broker.ask({"t": [(0, 0)]}, rack_id=rack)
    (row,) = fetched_rows(asked).values()
    assert (row.preferred_read_replica, len(list(iterate_batches(row.records)))) == (HERE, 3)


def test_the_leader_serves_its_own_rack():
    broker = three()
    broker.broker(2, rack="rack-1")
    assert preferred(broker, rack="rack-1") == HERE
    broker.broker(1, rack="rack-1", fenced=True)
    assert preferred(broker, rack="rack-1") == 2


def test_without_a_selector_consumers_read_here():
    assert preferred(three(reads_in_rack=False)) == HERE


def test_a_fetch_that_would_wait_is_answered_at_once():
    assert preferred(three(), 3, max_wait_ms=500) == 2


def test_followers_and_future_replicas_are_never_sent_away():
    broker = three()
    values = {"replica_epoch": 12, "rack_id": "rack-3", "version": 15}
    asked = broker.ask({"t": [(0, 0)]}, replica_id=2, **values)
    (row,) = fetched_rows(asked, 15).values()
    assert (row.preferred_read_replica, len(list(iterate_batches(row.records)))) == (HERE, 3)


def test_a_follower_out_of_the_isr_may_lag_for_ever():
    broker = three()
    assert preferred(broker) == 2
    broker.register(key_of("t"), registration(**THREE | {"isr": (1, 3)}, partition_epoch=2))
    assert preferred(broker) == HERE


def test_a_follower_serves_offsets_that_its_log_has():
    broker = three(records=1)
    for _ in range(2):
        broker.append([key_of("t")])
    assert [preferred(broker, offset) for offset in (0, 1, 2)] == [2, 2, HERE]
    follow(broker, 2, 3, log_start_offset=1)
    assert [preferred(broker, offset) for offset in (0, 1, 3)] == [HERE, 2, 2]


def test_a_follower_that_has_not_fetched_is_not_chosen():
    broker = Records(reads_in_rack=True)
    broker.broker(1, rack="rack-1")
    broker.broker(2, rack="rack-2")
    broker.topic(**THREE)
    assert preferred(broker) == HERE


@pytest.mark.parametrize("fields", [{"fenced": True}, {"listener": "OTHER"}])
def test_a_follower_that_the_consumer_does_not_reach_is_not_chosen(fields):
    broker = three()
    broker.broker(2, rack="rack-2", **fields)
    assert preferred(broker) == HERE
    brokers = broker.image.brokers.delete(2)
    broker.image = msgspec.structs.replace(broker.image, brokers=brokers)
    assert preferred(broker) == HERE


def test_the_one_that_was_caught_up_last_is_chosen():
    broker = three()
    broker.broker(3, rack="rack-2")
    assert preferred(broker) == 3
    broker.advance(LAG_MS // 4)
    follow(broker, 2, 3)
    assert preferred(broker) == 2


def test_a_broker_that_does_not_lead_sends_nobody_away():
    broker = three()
    broker.register(key_of("t"), registration(2, 2, **THREE))
    broker.broker(1, rack="rack-1")
    assert preferred(broker, rack="rack-3") == HERE


def test_another_leader_epoch_is_an_error_as_for_a_read():
    broker = three()
    for epoch, code in ((0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch)):
        row = {"partition": 0, "fetch_offset": 0, "current_leader_epoch": epoch}
        asked = broker.ask({"t": [row]}, rack_id="rack-2")
        (found,) = fetched_rows(asked).values()
        assert (found.error_code, found.preferred_read_replica) == (code, HERE)


def test_the_session_answers_it_each_time():
    broker = three()
    first = answer_of(broker.ask({"t": [(0, 0)]}, rack_id="rack-2", session_epoch=0), 1, 12)
    again = broker.ask({}, rack_id="rack-2", session_id=first.session_id, session_epoch=1)
    (row,) = fetched_rows(again).values()
    assert row.preferred_read_replica == 2
