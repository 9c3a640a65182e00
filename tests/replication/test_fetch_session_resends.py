"""Rows of a session that a follower does not take, whose high watermark is told once more."""

import msgspec

from replication.leader.fetch_session import FetchPartition
from replication.leader.session_partition import SessionPartition
from tests.replication.leader.test_fetch_session import A, B, Broker, keys_of, request, row


def test_a_partition_is_sent_once_more_after_a_diverging_epoch():
    """The follower truncates and takes no high watermark; with no record behind, none came."""
    broker = Broker()
    session_id = broker.open(A, B)
    diverging = row(A, 6, diverging_epoch=(1, 6))
    for epoch, rows, expected in (
        (1, [diverging], [A]),
        (2, [diverging], [A]),
        (3, [row(A, 6)], [A]),
        (4, [row(A, 6)], []),
    ):
        assert keys_of(broker.fetch(session_id=session_id, epoch=epoch, rows=rows)) == expected
    full = broker.open(A, rows=[diverging])
    assert keys_of(broker.fetch(session_id=full, epoch=1, rows=[row(A, 6)])) == [A]


def test_a_partition_is_sent_once_more_in_a_new_leader_epoch():
    """The follower drops a response that was under way while it learnt of the epoch."""
    broker = Broker()
    session_id = broker.open(A, B)

    def fetch(epoch, offset, leader_epoch):
        asked = msgspec.structs.replace(
            request(session_id=session_id, epoch=epoch),
            partitions={
                A: FetchPartition(
                    fetch_offset=offset, max_bytes=1_000, current_leader_epoch=leader_epoch
                )
            },
        )
        context = broker.manager.new_context(asked, broker.names.get, broker.now_ms)
        read = [row(part.key) for part in context.partitions()]
        return keys_of(context.respond(read, broker.now_ms))

    assert fetch(1, 0, 3) == [A]
    assert fetch(2, 1, 3) == [], "another offset of the same epoch"
    assert fetch(3, 1, 4) == [A]
    assert fetch(4, 1, 4) == []


def test_what_was_told_once_is_told_again_behind_something_else():
    """The very row that said nothing new does so again until another one was sent."""
    broker = Broker()
    session_id = broker.open(A, B)
    first, second = row(A, 6), row(A, 7)
    for epoch, told, expected in (
        (1, first, [A]),
        (2, first, []),
        (3, first, []),
        (4, second, [A]),
        (5, first, [A]),
    ):
        rows = broker.fetch(session_id=session_id, epoch=epoch, rows=[told])
        assert keys_of(rows) == expected, f"{epoch=}"


def test_a_row_that_said_nothing_new_says_it_in_another_leader_epoch():
    part = SessionPartition(A, "a", FetchPartition(fetch_offset=0, max_bytes=1_000))
    told = row(A, 6)
    part.note(told)
    assert not part.is_changed(told)
    assert part.untold is told
    part.ask(FetchPartition(fetch_offset=0, max_bytes=1_000, current_leader_epoch=3))
    assert part.untold is None
    assert part.is_changed(told)
    assert part.untold is None
