"""Produce: who may write where, what each partition is answered, and when."""

import struct

import pytest
from msgspec.structs import replace

from broker.apis.records.produce import ADMIN_CLIENT_ID
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from storage.logs.log_validator import AppendRules
from tests.broker.apis.records import PRODUCE, Records, answer_of, key_of, produced_rows
from tests.broker.apis.requests import answer_bytes, recorded
from tests.replication.partitions import WALL_MS, from_follower, registration
from tests.storage.test_unified_log import produced
from wire.errors import ErrorCode, RemoteProtocolError

NONE = ErrorCode.none
NOT_LEADER = ErrorCode.not_leader_or_follower
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
TRANSACTIONAL = 0x10


def records(**fields):
    return bytes(produced(WALL_MS, **fields).buffer)


def codes(asked, version=12):
    return {name: row.error_code for name, row in produced_rows(asked, version).items()}


@pytest.mark.parametrize("version", range(3, 14))
def test_records_are_appended_and_answered_in_every_version(version):
    broker = Records()
    broker.topic()
    broker.topic("u", 1)
    asked = broker.send({"t": {0: records()}, "u": {1: records(), 9: records()}}, version=version)
    rows = list(produced_rows(asked, version).values())
    assert [row.error_code for row in rows] == [NONE, NONE, ErrorCode.unknown_topic_or_partition]
    assert [(row.index, row.base_offset) for row in rows] == [(0, 0), (1, 0), (9, -1)]
    if version >= 5:
        assert [row.log_start_offset for row in rows] == [0, 0, -1]
    assert [broker.manager.partitions[key].log.end_offset for key in broker.vfs] == [1, 1]


def test_all_acks_are_answered_when_the_follower_has_fetched():
    broker = Records()
    broker.topic(**PAIR)
    asked = broker.send({"t": {0: records()}})
    assert asked.parts == []
    broker.fetch((key_of("t"), 1), params=from_follower())
    assert codes(asked) == {("t", 0): NONE}


def test_all_acks_end_with_the_timeout_of_the_request():
    broker = Records()
    broker.topic(**PAIR)
    asked = broker.send({"t": {0: records()}})
    broker.advance(49)
    assert asked.parts == []
    broker.advance(1)
    assert codes(asked) == {("t", 0): ErrorCode.request_timed_out}


def test_without_acks_there_is_no_answer():
    broker = Records()
    broker.topic()
    asked = broker.send({"t": {0: records()}}, acks=0)
    assert (asked.parts, asked.reasons) == ([], [None])
    assert broker.manager.partitions[key_of("t")].log.end_offset == 1


def test_without_acks_an_error_closes_the_connection():
    broker = Records()
    broker.topic()
    asked = broker.send({"t": {0: records(), 3: records()}, "u": {0: records()}}, acks=0)
    assert asked.parts == []
    assert asked.reasons == ["Produce with acks=0 failed: unknown_topic_or_partition"]


def test_errors_are_counted_by_partition():
    broker = Records()
    broker.topic()
    good = records()
    asked = broker.send({"t": {0: good, 1: good}, "u": {0: good}})
    unknown = ErrorCode.unknown_topic_or_partition
    assert asked.errors == {(PRODUCE, ErrorCode.none): 1, (PRODUCE, unknown): 2}
    asked = broker.send({"t": {0: good, 1: good}}, acks=0)
    assert asked.errors == {(PRODUCE, ErrorCode.none): 1, (PRODUCE, unknown): 1}
    assert broker.send({"t": {0: good}}, acks=0).errors == {}, "no answer, and no end"


def test_other_acks_are_refused():
    broker = Records()
    broker.topic()
    broker.topic("__consumer_offsets")
    asked = broker.send({"t": {0: records()}, "__consumer_offsets": {0: records()}}, acks=2)
    assert set(codes(asked).values()) == {ErrorCode.invalid_required_acks}


def test_a_topic_is_named_by_a_known_name_or_id():
    broker = Records()
    broker.topic()
    unknown = {"t": {0: records()}, "u": {0: records()}}
    assert codes(broker.send(unknown)) == {
        ("t", 0): NONE,
        ("u", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert codes(broker.send(unknown, version=13), 13) == {
        (key_of("t")[0], 0): NONE,
        (key_of("u")[0], 0): ErrorCode.unknown_topic_id,
    }


def test_write_access_is_asked_for_each_topic():
    broker = Records(AccessRules())
    broker.topic()
    broker.topic("u")
    broker.allow(Operation.WRITE, "t")
    broker.allow(Operation.READ, "u")
    asked = broker.send({"t": {0: records()}, "u": {0: records()}, "v": {0: records()}})
    assert codes(asked) == {
        ("t", 0): NONE,
        ("u", 0): ErrorCode.topic_authorization_failed,
        ("v", 0): ErrorCode.topic_authorization_failed,
    }


def test_internal_topics_are_written_by_admin_clients_only():
    broker = Records()
    broker.topic("__consumer_offsets")
    wanted = {"__consumer_offsets": {0: records()}}
    assert set(codes(broker.send(wanted)).values()) == {ErrorCode.invalid_topic_exception}
    assert set(codes(broker.send(wanted, client_id=ADMIN_CLIENT_ID)).values()) == {NONE}


@pytest.mark.parametrize("bad", [None, b"", b"\0" * 61])
def test_what_is_no_batch_is_refused(bad):
    broker = Records()
    broker.topic()
    rows = produced_rows(broker.send({"t": {0: bad}}))
    assert rows["t", 0].error_code is ErrorCode.invalid_record
    assert broker.manager.partitions[key_of("t")].log.end_offset == 0


def test_a_rejected_record_is_named():
    broker = Records()
    broker.topic(rules=AppendRules(is_compacted=True))
    row = produced_rows(broker.send({"t": {0: records()}}))["t", 0]
    assert row.error_code is ErrorCode.invalid_record
    assert row.log_start_offset == 0
    (error,) = row.record_errors
    assert (error.batch_index, error.batch_index_error_message[:9]) == (0, "Compacted")
    assert row.error_message.startswith("One or more records have been rejected")


def test_a_refusal_equals_that_of_kafka():
    """Kafka 4.3.1 to librdkafka, which sent a record without a key to a compacted topic."""
    request, response = recorded("static-4.3.1-00207")
    broker = Records()
    broker.topic("s-rd-one", 2, rules=AppendRules(is_compacted=True))
    log = broker.manager.partitions[key_of("s-rd-one", 2)].log
    log.validator = replace(log.validator, partition="s-rd-one-2")
    assert answer_bytes(broker.produce, request) == response


def test_the_later_batch_of_a_partition_counts():
    broker = Records()
    broker.topic()
    one = records()
    two = bytes(produced(WALL_MS, WALL_MS).buffer)
    body = struct.pack(">hhiii", -1, -1, 50, 2, 0)[:-4]
    for data in (one, two):
        body += struct.pack(">h1sii", 1, b"t", 1, 0) + struct.pack(">i", len(data)) + data
    asked = broker.call(PRODUCE, 3, body)
    assert codes(asked, 3) == {("t", 0): NONE}
    assert broker.manager.partitions[key_of("t")].log.end_offset == 2


def test_a_frame_that_cannot_be_read_is_refused():
    with pytest.raises(RemoteProtocolError, match="Produce 9"):
        Records().call(PRODUCE, 9, b"\1")


# --- the leader beside an error


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_another_leader_is_named_with_its_endpoint(version):
    broker = Records()
    broker.topic(leader=2, epoch=4, **PAIR)
    broker.broker(2)
    asked = broker.send({"t": {0: records()}}, version=version)
    (row,) = produced_rows(asked, version).values()
    assert row.error_code is NOT_LEADER
    if version >= 10:
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 4)
        response = answer_of(asked, PRODUCE, version)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "h", 92)
        assert endpoint.rack == "r"


@pytest.mark.parametrize("fields", [{"fenced": True}, {"listener": "OTHER"}])
def test_a_leader_without_an_endpoint_is_named_alone(fields):
    broker = Records()
    broker.topic(leader=2, epoch=4, **PAIR)
    broker.broker(2, **fields)
    asked = broker.send({"t": {0: records()}})
    row = produced_rows(asked)["t", 0]
    assert row.current_leader.leader_id == 2
    assert not answer_of(asked, PRODUCE, 12).node_endpoints


def test_a_leader_that_changed_while_it_was_waited_for_is_named():
    broker = Records()
    broker.topic(**PAIR)
    broker.broker(2)
    asked = broker.send({"t": {0: records()}})
    broker.register(key_of("t"), registration(2, 2, **PAIR))
    row = produced_rows(asked)["t", 0]
    assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, 2)


# --- transactions


def test_a_transaction_needs_an_id_that_may_be_written_with():
    broker = Records(AccessRules())
    broker.topic()
    broker.allow(Operation.WRITE, "t")
    broker.allow(Operation.WRITE, "x", ResourceType.TRANSACTIONAL_ID)
    batch = {"t": {0: records(producer=5, attributes=TRANSACTIONAL), 7: records()}}
    for transactional_id in (None, "y"):
        rows = produced_rows(broker.send(batch, transactional_id=transactional_id)).values()
        assert {row.error_code for row in rows} == {ErrorCode.transactional_id_authorization_failed}
        assert {row.error_message for row in rows} == {"Transactional Id authorization failed."}
    rows = produced_rows(broker.send(batch, transactional_id="x"))
    assert rows["t", 0].error_code is ErrorCode.not_enough_replicas
    assert rows["t", 0].error_message.endswith("Underlying error: COORDINATOR_NOT_AVAILABLE")
    assert rows["t", 7].error_code is ErrorCode.unknown_topic_or_partition
    assert broker.manager.partitions[key_of("t")].log.end_offset == 0


def test_an_id_without_transactional_batches_is_not_asked_about():
    broker = Records(AccessRules())
    broker.topic()
    broker.allow(Operation.WRITE, "t")
    asked = broker.send({"t": {0: records(producer=5)}}, transactional_id="y")
    assert codes(asked) == {("t", 0): NONE}


def test_a_transactional_batch_does_not_hold_others_back():
    broker = Records()
    broker.topic()
    broker.topic("u")
    batches = {"t": {0: records(producer=5, attributes=TRANSACTIONAL)}, "u": {0: records()}}
    assert codes(broker.send(batches, transactional_id="x")) == {
        ("t", 0): ErrorCode.not_enough_replicas,
        ("u", 0): NONE,
    }


def test_transactional_batches_are_of_one_producer():
    broker = Records()
    broker.topic()
    broker.topic("u")
    batches = {
        "t": {0: records(producer=5, attributes=TRANSACTIONAL)},
        "u": {0: records(producer=6, attributes=TRANSACTIONAL)},
    }
    rows = produced_rows(broker.send(batches, transactional_id="x")).values()
    assert {row.error_code for row in rows} == {ErrorCode.invalid_producer_id_mapping}
