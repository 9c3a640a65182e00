"""The start of a follower's log: its leader must know it to send consumers where an offset is."""

from tests.replication.fetching import Pair, answered, key
from wire.errors import ErrorCode


def test_a_log_start_that_rises_is_told_with_the_next_request():
    pair = Pair(records=3)
    pair.assign()
    pair.exchange()
    log = pair.led[key()].log
    log.set_high_watermark(3)
    log.raise_log_start_to(2)
    pair.exchange()
    (row,) = pair.requested().topics[0].partitions
    assert row.log_start_offset == 2


def test_a_log_start_that_retention_raised_is_told_though_nothing_is_fetched():
    pair = Pair(records=3, count=2)
    pair.assign(0, 1)
    pair.exchange(2)
    pair.followed[key(1)].log.set_high_watermark(3)
    pair.followed[key(1)].log.raise_log_start_to(2)
    for number in (0, 1):
        pair.fetchers.log_start_raised(key(number))
    pair.exchange()
    (row,) = pair.requested().topics[0].partitions
    assert (row.partition, row.fetch_offset, row.log_start_offset) == (1, 3, 2)


def test_a_log_start_is_not_told_of_what_is_not_fetched():
    pair = Pair(records=3, count=2)
    pair.assign(0, 1)
    pair.exchange(2)
    answered(pair, code=ErrorCode.unknown_server_error)  # both wait for the back-off
    pair.fetchers.log_start_raised(key(0))
    pair.fetchers.remove(key(1))
    pair.fetchers.log_start_raised(key(1))
    pair.followed[key(0)].mark_offline()
    pair.fetchers.log_start_raised(key(0))
    del pair.followed[key(0)]
    pair.fetchers.log_start_raised(key(0))
    assert pair.follower.sent == []
    assert not pair.fetchers._fetchers[1, 0].session.has_request
