"""Fetch: who may read what, what each partition is answered, when, and in which session."""

from collections import Counter

import msgspec
import pytest

from broker.clients.request_metrics import FETCH_FOLLOWER
from quorum_controller.security.authorization import (
    CLUSTER_NAME,
    AccessRules,
    Operation,
    ResourceType,
)
from storage.logs.tail import TAIL_BYTES_MAX
from storage.producers.producer_state import Origin
from tests.broker.apis.records import (
    FETCH,
    Records,
    answer_of,
    content,
    divide,
    fetched_rows,
    key_of,
)
from tests.replication.partitions import WALL_MS, registration
from tests.storage.test_unified_log import marker, produced
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode, RemoteProtocolError

NONE = ErrorCode.none
NOT_LEADER = ErrorCode.not_leader_or_follower
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
FOLLOWER = {"replica_id": 2, "replica_epoch": 12}


@pytest.fixture(autouse=True, params=["whole", "in pieces"])
def _size(request, monkeypatch):
    """Each request is small, and then so large that it is done partition by partition."""
    if request.param == "in pieces":
        divide(monkeypatch)


def filled(count=3, **fields):
    broker = Records(**fields)
    broker.topic()
    for _ in range(count):
        broker.append([key_of("t")])
    return broker


def codes(asked, version=12):
    return {name: row.error_code for name, row in fetched_rows(asked, version).items()}


def offsets(row):
    return [batch.header.base_offset for batch in iterate_batches(row.records or b"")]


def session_of(asked, version=12):
    response = answer_of(asked, FETCH, version)
    return response.error_code, response.session_id


@pytest.mark.parametrize("version", range(4, 19))
def test_records_are_answered_in_every_version(version):
    broker = filled()
    before = broker.handles(key_of("t"))
    asked = broker.ask({"t": [(0, 1), (5, 0)]}, version=version)
    rows = list(fetched_rows(asked, version).values())
    assert [row.error_code for row in rows] == [NONE, ErrorCode.unknown_topic_or_partition]
    assert (offsets(rows[0]), rows[0].high_watermark, rows[0].last_stable_offset) == ([1, 2], 3, 3)
    assert (rows[0].aborted_transactions, rows[1].aborted_transactions) == (None, ())
    assert (rows[1].high_watermark, rows[1].records or b"") == (-1, b"")
    assert broker.handles(key_of("t")) == before


@pytest.mark.parametrize(("replica_id", "kind"), [(-1, FETCH), (0, FETCH_FOLLOWER)])
def test_errors_and_the_kind_of_reader_are_counted(replica_id, kind):
    asked = filled().ask({"t": [(0, 1), (5, 0)]}, replica_id=replica_id)
    row_codes = list(codes(asked).values())
    assert asked.kind == kind
    expected = Counter((FETCH, code) for code in [NONE, *row_codes])
    assert (asked.errors, len(row_codes)) == (expected, 2), "one of the response, two of its rows"


def test_records_leave_from_their_file():
    broker = filled()
    (parts,) = broker.ask({"t": [(0, 0)]}).parts
    assert [isinstance(part, bytes) for part in parts] == [True, True, False, True]
    content(parts)


def test_a_fetch_waits_for_records():
    broker = filled()
    asked = broker.ask({"t": [(0, 3)]}, max_wait_ms=100)
    assert asked.parts == []
    broker.append([key_of("t")])
    assert offsets(fetched_rows(asked)["t", 0]) == [3]


def test_a_wait_ends_with_its_time():
    broker = filled()
    asked = broker.ask({"t": [(0, 3)]}, max_wait_ms=100)
    broker.advance(99)
    assert asked.parts == []
    broker.advance(1)
    assert codes(asked) == {("t", 0): NONE}


def test_the_response_has_a_limit_of_its_own():
    size = len(fetched_rows(filled().ask({"t": [(0, 0)]}))["t", 0].records) // 3
    for bytes_max, asked_bytes, expected in (
        (2 * size, 9 * size, [0, 1]),
        (9 * size, 2 * size, [0, 1]),
        (0, 9 * size, [0]),
        (9 * size, -1, [0]),
    ):
        broker = filled(bytes_max=bytes_max)
        asked = broker.ask({"t": [(0, 0)]}, max_bytes=asked_bytes)
        assert offsets(fetched_rows(asked)["t", 0]) == expected


def test_no_more_is_waited_for_than_the_response_may_hold():
    broker = filled(bytes_max=10)
    assert offsets(
        fetched_rows(broker.ask({"t": [(0, 0)]}, max_wait_ms=100, min_bytes=1 << 20))["t", 0]
    ) == [0]
    assert broker.ask({"t": [(0, 3)]}, max_wait_ms=100, min_bytes=1).parts == []
    assert broker.ask({"t": [(0, 3)]}, max_wait_ms=100, min_bytes=1, max_bytes=-1).parts


def test_a_negative_limit_of_a_partition_is_none():
    broker = filled()
    broker.topic("u")
    broker.append([key_of("u")])
    rows = fetched_rows(broker.ask({"t": [(0, 0)], "u": [(0, 0, -5)]}))
    assert (offsets(rows["t", 0]), offsets(rows["u", 0])) == ([0, 1, 2], [])


def test_a_frame_that_cannot_be_read_is_refused():
    with pytest.raises(RemoteProtocolError, match="Fetch 12"):
        Records().call(FETCH, 12, b"\1")


# --- topics


def test_unknown_ids_and_names():
    broker = filled()
    (row,) = fetched_rows(broker.ask({"u": [(0, 0)]}, version=13), 13).values()
    assert (row.error_code, row.aborted_transactions) == (ErrorCode.unknown_topic_id, ())
    asked = broker.ask({"u": [(0, 0)]})
    assert codes(asked) == {("u", 0): ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("reader", [{}, FOLLOWER], ids=["consumer", "follower"])
def test_a_topic_that_was_made_anew_has_another_id(reader):
    broker = filled()
    asked = broker.ask({"t": [(0, 3)]}, version=15, session_epoch=0, **reader)
    _, session_id = session_of(asked, 15)
    assert session_id > 0

    def ask(epoch):
        return broker.ask({}, version=15, session_id=session_id, session_epoch=epoch, **reader)

    old = key_of("t")
    broker.forget(old)
    broker.manager.drop(old)
    again = ask(1)
    assert codes(again, 15) == {old: ErrorCode.unknown_topic_or_partition}
    new = (bytes(15) + b"\x05", 0)
    broker.image = msgspec.structs.replace(
        broker.image, topic_id_by_name=broker.image.topic_id_by_name.set("t", new[0])
    )
    broker.image = msgspec.structs.replace(
        broker.image,
        topics=broker.image.topics.set(
            new[0], msgspec.structs.replace(_topic(broker), topic_id=new[0], name="t")
        ),
    )
    again = ask(2)
    assert codes(again, 15) == {old: ErrorCode.unknown_topic_or_partition}
    broker.register(new, registration(2))
    again = ask(3)
    assert codes(again, 15) == {old: NOT_LEADER}
    broker.create(new)
    again = ask(4)
    assert codes(again, 15) == {old: ErrorCode.inconsistent_topic_id}


def _topic(broker):
    broker.name("template")
    return broker.image.topics[key_of("template")[0]]


def test_read_access_is_asked_for_each_topic():
    broker = filled(rules=AccessRules())
    broker.topic("u")
    broker.allow(Operation.READ, "t")
    broker.allow(Operation.WRITE, "u")
    broker.allow(Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER)
    topics = {"t": [(0, 0)], "u": [(0, 0)], "v": [(0, 0)]}
    assert codes(broker.ask(topics)) == {
        ("t", 0): NONE,
        ("u", 0): ErrorCode.topic_authorization_failed,
        ("v", 0): ErrorCode.topic_authorization_failed,
    }


def test_followers_need_cluster_action():
    broker = Records(rules=AccessRules())
    broker.topic(**PAIR)
    broker.allow(Operation.READ, "t")
    topics = {"t": [{"partition": 0, "fetch_offset": 0, "log_start_offset": 0}], "u": [(0, 0)]}
    refused = broker.ask(topics, version=15, **FOLLOWER)
    assert set(codes(refused, 15).values()) == {ErrorCode.topic_authorization_failed}
    broker.allow(Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER)
    rows = codes(broker.ask(topics, version=15, **FOLLOWER), 15)
    assert rows == {key_of("t"): NONE, key_of("u"): ErrorCode.unknown_topic_id}


def test_what_a_follower_has_looked_up_no_consumer_reads_in_its_session():
    broker = Records(rules=AccessRules())
    broker.topic(**PAIR)
    broker.allow(Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER)
    first = broker.ask({"t": [(0, 0)]}, version=15, session_epoch=0, **FOLLOWER)
    assert codes(first, 15) == {key_of("t"): NONE}
    _, session_id = session_of(first, 15)
    again = broker.ask({}, version=15, session_id=session_id, session_epoch=1)
    assert codes(again, 15) == {key_of("t"): ErrorCode.topic_authorization_failed}


# --- followers and consumers


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_a_follower_reads_to_the_end_and_completes_a_produce(version):
    broker = Records()
    broker.topic(**PAIR)
    waiting = broker.send({"t": {0: bytes(produced(WALL_MS).buffer)}})
    follower = FOLLOWER if version >= 15 else {"replica_id": 2}
    asked = broker.ask({"t": [(0, 0)]}, version=version, **follower)
    (row,) = fetched_rows(asked, version).values()
    assert (offsets(row), row.high_watermark) == ([0], 0)
    assert waiting.parts == []
    broker.ask({"t": [(0, 1)]}, version=version, **follower)
    assert len(waiting.parts) == 1


@pytest.mark.parametrize("replica_epoch", [0, 11])
def test_a_follower_of_an_earlier_registration_is_refused(replica_epoch):
    broker = Records()
    broker.topic(**PAIR)
    asked = broker.ask({"t": [(0, 0)]}, version=15, replica_id=2, replica_epoch=replica_epoch)
    assert set(codes(asked, 15).values()) == {NOT_LEADER}


def test_a_diverging_follower_is_told_the_epoch():
    broker = filled()
    broker.register(key_of("t"), registration(1, 4, **PAIR))
    row = {"partition": 0, "fetch_offset": 9, "last_fetched_epoch": 1}
    asked = broker.ask({"t": [row]}, version=15, **FOLLOWER)
    (found,) = fetched_rows(asked, 15).values()
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (1, 3)


@pytest.mark.parametrize(("version", "is_read"), [(10, False), (11, True), (18, True)])
def test_consumers_read_from_followers_since_version_11(version, is_read):
    broker = filled()
    broker.register(key_of("t"), registration(2, 2))
    (row,) = fetched_rows(broker.ask({"t": [(0, 0)]}, version=version), version).values()
    assert (row.error_code is NONE) is is_read
    assert offsets(row) == ([0, 1, 2] if is_read else [])


def test_a_follower_fetches_from_the_leader_only():
    broker = filled()
    broker.register(key_of("t"), registration(3, 2))
    asked = broker.ask({"t": [(0, 0)]}, version=15, **FOLLOWER)
    assert set(codes(asked, 15).values()) == {NOT_LEADER}


@pytest.mark.parametrize(("replica_id", "expected"), [(-1, [0, 1]), (-2, [0, 1]), (-3, [0, 1, 2])])
def test_only_replicas_read_what_is_not_committed(replica_id, expected):
    broker = Records()
    broker.topic(**PAIR)
    for _ in range(3):
        broker.append([key_of("t")])
    broker.ask({"t": [(0, 2)]}, version=15, **FOLLOWER)
    asked = broker.ask({"t": [(0, 0)]}, version=10, replica_id=replica_id)
    assert offsets(fetched_rows(asked, 10)["t", 0]) == expected


def test_committed_reads_end_at_the_last_stable_offset_and_name_aborted_transactions():
    broker = filled(0)
    for batch, origin in (
        (produced(WALL_MS, producer=7, attributes=0x10), Origin.CLIENT),
        (marker(0), Origin.COORDINATOR),
        (produced(WALL_MS, producer=8, attributes=0x10), Origin.CLIENT),
    ):
        broker.manager.append(
            {key_of("t"): batch}, required_acks=1, timeout_ms=0, origin=origin, answer=print
        )
    row = fetched_rows(broker.ask({"t": [(0, 0)]}, isolation_level=1))["t", 0]
    (aborted,) = row.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (7, 0)
    assert (offsets(row), row.last_stable_offset, row.high_watermark) == ([0, 1], 2, 3)


# --- errors


@pytest.mark.parametrize(
    ("version", "is_named"), [(12, False), (15, False), (16, True), (18, True)]
)
@pytest.mark.parametrize("is_follower", [True, False])
@pytest.mark.parametrize("leader", [1, 2])
def test_the_leader_stands_beside_its_errors(version, is_named, leader, is_follower):
    """With the endpoint for consumers; followers know where brokers are."""
    broker = filled()
    for node_id in (1, 2):
        broker.broker(node_id)
    broker.register(key_of("t"), registration(leader, 4, **PAIR))
    is_known = is_follower and leader == 2
    row = {"partition": 0, "fetch_offset": 0, "current_leader_epoch": 4 if is_known else 1}
    follower = FOLLOWER if version >= 15 else {"replica_id": 2}
    asked = broker.ask({"t": [row]}, version=version, **(follower if is_follower else {}))
    (found,) = fetched_rows(asked, version).values()
    assert found.error_code is (NOT_LEADER if is_known else ErrorCode.fenced_leader_epoch)
    assert found.current_leader.leader_id == (leader if is_named else -1)
    endpoints = getattr(answer_of(asked, FETCH, version), "node_endpoints", ())
    is_located = is_named and not is_follower
    assert [each.node_id for each in endpoints] == ([leader] if is_located else [])


def test_an_offset_out_of_range_has_no_leader():
    broker = filled()
    (row,) = fetched_rows(broker.ask({"t": [(0, 9)]}, version=16), 16).values()
    assert row.error_code is ErrorCode.offset_out_of_range
    assert row.current_leader.leader_id == -1


@pytest.mark.parametrize(("version", "code"), [(5, NOT_LEADER), (6, ErrorCode.kafka_storage_error)])
def test_a_storage_error_is_not_known_to_old_consumers(version, code):
    broker = filled()
    broker.manager.partitions[key_of("t")].mark_offline()
    assert codes(broker.ask({"t": [(0, 0)]}, version=version), version) == {("t", 0): code}


# --- sessions


def test_a_session_answers_what_changed():
    broker = filled()
    broker.topic("u")
    first = broker.ask({"t": [(0, 0)], "u": [(0, 0)]}, session_epoch=0)
    code, session_id = session_of(first)
    assert (code, session_id > 0) == (NONE, True)
    assert set(fetched_rows(first)) == {("t", 0), ("u", 0)}
    session = {"session_id": session_id}
    second = broker.ask({"t": [(0, 3)]}, session_epoch=1, **session)
    assert fetched_rows(second) == {}
    broker.append([key_of("u")])
    third = broker.ask({}, session_epoch=2, **session)
    assert set(fetched_rows(third)) == {("u", 0)}
    fourth = broker.ask({}, {"u": [0]}, session_epoch=3, **session)
    assert fetched_rows(fourth) == {}
    assert session_of(broker.ask({}, session_epoch=3, **session)) == (
        ErrorCode.invalid_fetch_session_epoch,
        0,
    )
    closed = broker.ask({"t": [(0, 0)]}, session_epoch=-1, **session)
    assert session_of(closed) == (NONE, 0)
    assert session_of(broker.ask({}, session_epoch=4, **session)) == (
        ErrorCode.fetch_session_id_not_found,
        0,
    )


def test_a_session_has_no_rows_where_a_later_request_has_overtaken():
    """Records that were read for a request that came again are closed."""
    broker = filled()
    _, session_id = session_of(broker.ask({"t": [(0, 3)]}, session_epoch=0))
    before = broker.handles(key_of("t"))
    parked = broker.ask({}, session_id=session_id, session_epoch=1, max_wait_ms=100)
    broker.ask({}, session_id=session_id, session_epoch=2, max_wait_ms=100)
    large = produced(WALL_MS, value=b"v" * TAIL_BYTES_MAX)  # it is read by a handle
    broker.append({key_of("t"): large})
    assert session_of(parked) == (ErrorCode.invalid_fetch_session_epoch, session_id)
    assert broker.handles(key_of("t")) == before + 1, "that of the second answer"


def test_a_follower_takes_the_session_of_a_consumer():
    broker = Records(slots=1)
    broker.topic(**PAIR)
    assert session_of(broker.ask({"t": [(0, 0)]}, version=15, session_epoch=0), 15)[1] > 0
    assert session_of(broker.ask({"t": [(0, 0)]}, version=15, session_epoch=0), 15)[1] == 0
    follower = broker.ask({"t": [(0, 0)]}, version=15, session_epoch=0, **FOLLOWER)
    assert session_of(follower, 15)[1] > 0


def test_a_follower_that_does_not_say_its_log_start_has_none():
    broker = Records()
    partition = broker.topic(**PAIR)
    broker.ask({"t": [(0, 0)]}, version=4, replica_id=2)
    assert partition.role.replicas[2].log_start_offset is None
    broker.ask(
        {"t": [{"partition": 0, "fetch_offset": 0, "log_start_offset": 0}]}, version=15, **FOLLOWER
    )
    assert partition.role.replicas[2].log_start_offset == 0


def test_sessions_begin_with_version_7():
    broker = filled()
    asked = broker.ask({"t": [(0, 0)]}, version=6)
    assert codes(asked, 6) == {("t", 0): NONE}
