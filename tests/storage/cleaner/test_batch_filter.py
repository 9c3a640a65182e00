"""The rest of a cleaned batch: horizons, empty batches, codecs, times, old messages."""

from collections.abc import Mapping

import pytest

from storage.cleaner.batch_filter import BatchFilter, FilterRules, Kept
from storage.cleaner.clean_job import CleanStats, LastRecord
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.transactions import CleanedTransactions
from storage.segments.transaction_index import AbortedTransaction
from tests.storage.cleaner.rounds import (
    APPEND_TIME,
    NOW_MS,
    RETENTION_MS,
    TRANSACTIONAL,
    batch,
    headers,
    left,
    marker,
    record,
)
from tests.wire.test_legacy_writer import WRAPPERS
from wire.batches.batch import Batch, iterate_batches
from wire.batches.compression import Codec
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.errors import CorruptBatchError

HORIZON_MS = NOW_MS + RETENTION_MS


def filter_of(
    newest: Mapping[bytes, int] | None = None,
    *producers: LastRecord,
    latest: int = 1000,
    upper: int = 5000,
    aborted: tuple[AbortedTransaction, ...] = (),
    keeps_old: bool = True,
) -> BatchFilter:
    offsets = OffsetMap(100)
    offsets.put_all(0, [(offset, key) for key, offset in (newest or {}).items()])
    offsets.latest_offset = latest
    transactions = CleanedTransactions()
    transactions.add_aborted(aborted)
    rules = FilterRules(
        now_ms=NOW_MS,
        delete_retention_ms=RETENTION_MS,
        upper_bound_offset=upper,
        producers={each.producer_id: each for each in producers},
        keeps_old_tombstones=keeps_old,
    )
    return BatchFilter(offsets, transactions, rules, CleanStats())


def of(content: bytes) -> Batch:
    return next(iterate_batches(content))


def only(kept: Kept | None) -> bytes:
    assert kept is not None
    assert kept.content is not None
    assert of(kept.content).crc_is_valid
    return kept.content


def test_a_batch_that_loses_nothing_is_the_same_bytes() -> None:
    content = batch(record(3, b"a"), record(4, b"b", timestamp_ms=NOW_MS + 5))
    kept = filter_of({b"a": 3, b"b": 4}).filtered(of(content))
    assert kept == Kept(None, 4, NOW_MS + 5)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_superseded_record_goes_and_the_others_are_as_before(codec: Codec) -> None:
    long = b"k" * 90
    records = (
        record(3, b"a", headers=(("h", None),)),
        record(5, long, timestamp_ms=NOW_MS + 9, headers=(("h", b"x"),)),
        record(6, b"c", timestamp_ms=NOW_MS + 2),
    )
    content = batch(*records, codec=codec, producer=(4, 1, 77), span=(3, 9))
    kept = filter_of({b"a": 8, long: 5, b"c": 6}).filtered(of(content))
    found = of(only(kept))
    assert found.records() == list(records[1:])
    before = of(content).header
    for name in ("base_offset", "last_offset", "attributes", "leader_epoch", "producer_id",
                 "producer_epoch", "base_sequence", "last_sequence"):  # fmt: skip
        assert getattr(found.header, name) == getattr(before, name), name
    assert found.header.base_timestamp_ms == NOW_MS + 9, "that of the first record, as Kafka's"
    assert found.header.max_timestamp_ms == NOW_MS + 9
    assert found.header.records_count == 2
    assert kept is not None
    assert (kept.last_offset, kept.max_timestamp_ms) == (9, NOW_MS + 9)


def test_the_largest_timestamp_is_that_of_the_records_left() -> None:
    content = batch(record(3, b"a"), record(4, b"b", timestamp_ms=NOW_MS + 50))
    kept = filter_of({b"a": 3, b"b": 9}).filtered(of(content))
    found = of(only(kept)).header
    assert (found.base_timestamp_ms, found.max_timestamp_ms) == (NOW_MS, NOW_MS)


def test_append_time_stays_the_time_of_all() -> None:
    content = batch(
        record(3, b"a", timestamp_ms=NOW_MS), record(4, b"b", None), attributes=APPEND_TIME
    )
    before = of(content)
    found = of(only(filter_of({b"a": 9, b"b": 4}).filtered(before)))
    assert found.header.is_log_append_time
    assert found.header.max_timestamp_ms == before.header.max_timestamp_ms
    assert [each.timestamp_ms for each in found.records()] == [NOW_MS]
    assert found.header.delete_horizon_ms == HORIZON_MS
    again = filter_of({b"a": 3, b"c": 9}).filtered(
        of(batch(record(3, b"a"), record(4, b"c"), attributes=APPEND_TIME))
    )
    assert of(only(again)).header.base_timestamp_ms == NOW_MS


# -- tombstones -----------------------------------------------------------------------------------


def test_a_tombstone_gets_its_horizon_and_keeps_its_time() -> None:
    content = batch(record(3, b"a", None, NOW_MS - 70), record(4, b"b", timestamp_ms=NOW_MS))
    found = of(only(filter_of({b"a": 3, b"b": 4}).filtered(of(content))))
    assert found.header.delete_horizon_ms == HORIZON_MS
    assert [each.timestamp_ms for each in found.records()] == [NOW_MS - 70, NOW_MS]
    assert found.header.max_timestamp_ms == NOW_MS


def test_a_horizon_is_set_once() -> None:
    content = batch(record(3, b"a", None), horizon_ms=NOW_MS + 1)
    assert filter_of({b"a": 3}).filtered(of(content)) == Kept(None, 3, NOW_MS)
    both = batch(record(3, b"a", None), record(4, b"b"), horizon_ms=NOW_MS + 1)
    found = of(only(filter_of({b"a": 3, b"b": 9}).filtered(of(both))))
    assert found.header.delete_horizon_ms == NOW_MS + 1
    assert found.records() == [record(3, b"a", None)]


def test_a_tombstone_goes_when_its_horizon_has_come() -> None:
    content = batch(record(3, b"a", None), record(4, b"b"), horizon_ms=NOW_MS)
    found = of(only(filter_of({b"a": 3, b"b": 4}).filtered(of(content))))
    assert found.records() == [record(4, b"b")]
    assert found.header.delete_horizon_ms == NOW_MS
    assert (
        filter_of({b"a": 3}).filtered(of(batch(record(3, b"a", None), horizon_ms=NOW_MS))) is None
    )


def test_what_is_behind_the_map_stays_even_without_a_key() -> None:
    content = batch(record(3, b"a"), record(4, b"a", None), record(5, None), horizon_ms=NOW_MS)
    kept = filter_of({b"a": 3}, latest=3).filtered(of(content))
    assert kept == Kept(None, 5, NOW_MS)
    older = batch(record(3, None), record(4, b"a", None), horizon_ms=NOW_MS)
    found = of(only(filter_of({b"a": 3}, latest=3).filtered(of(older))))
    assert found.records() == [record(4, b"a", None)]
    assert filter_of({b"a": 3}, latest=2).filtered(of(batch(record(2, b"a"), record(3, b"b"))))


def test_records_without_a_key_are_counted_and_go() -> None:
    one = filter_of({})
    assert one.filtered(of(batch(record(3, None), record(4, None)))) is None
    assert one._stats.invalid_messages_read == 2
    assert one._stats.messages_read == 2
    assert one._stats.messages_written == 0
    spanning = filter_of({}, latest=3)
    spanning.filtered(of(batch(record(3, None), record(4, None))))
    assert spanning._stats.invalid_messages_read == 1
    assert spanning._stats.messages_written == 1


# -- empty batches --------------------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_empty() -> None:
    content = batch(record(3, b"a"), record(4, b"a"), producer=(7, 2, 40), codec=Codec.GZIP)
    found = of(only(filter_of({b"a": 9}, LastRecord(7, 4, 2)).filtered(of(content))))
    header = found.header
    assert (header.size_bytes, header.records_count) == (61, 0)
    assert (header.base_offset, header.last_offset) == (3, 4)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 2, 41)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, NOW_MS)
    assert header.attributes == 0
    assert filter_of({b"a": 9}, LastRecord(7, 5, 2)).filtered(of(content)) is None
    assert filter_of({b"a": 9}, LastRecord(8, 4, 2)).filtered(of(content)) is None


def test_an_empty_batch_stays_the_same_and_goes_when_it_is_not_the_last() -> None:
    content = batch(record(3, b"a"), producer=(7, 2, 40), attributes=TRANSACTIONAL | APPEND_TIME)
    empty = only(filter_of({b"a": 9}, LastRecord(7, 3, 2)).filtered(of(content)))
    assert of(empty).header.attributes == TRANSACTIONAL | APPEND_TIME
    assert only(filter_of({}, LastRecord(7, 3, 2)).filtered(of(empty))) == empty
    assert filter_of({}, LastRecord(7, 4, 2)).filtered(of(empty)) is None


def test_the_batch_at_the_end_of_the_round_stays_empty() -> None:
    content = batch(record(3, b"a"))
    assert headers(only(filter_of({b"a": 9}, upper=4).filtered(of(content))))[0].records_count == 0
    assert filter_of({b"a": 9}, upper=5).filtered(of(content)) is None


# -- transactions ---------------------------------------------------------------------------------

ABORTED = AbortedTransaction(0, 7, 3, 5, 6)


def test_aborted_records_go_at_once_and_their_marker_stays() -> None:
    one = filter_of({b"a": 3}, aborted=(ABORTED,))
    data = batch(record(3, b"a"), producer=(7, 0, 0), attributes=TRANSACTIONAL)
    other = batch(record(4, b"a"), producer=(8, 0, 0))
    assert one.filtered(of(data)) is None
    assert one.filtered(of(other)) == Kept(None, 4, NOW_MS)
    assert one.filtered(of(marker(5, 7, commits=False))) == Kept(None, 5, NOW_MS)
    assert one._transactions.take_retained() == [ABORTED]
    assert one._transactions.take_retained() == []


def test_aborted_records_of_the_last_batch_of_a_producer_leave_it_empty() -> None:
    one = filter_of({b"a": 3}, LastRecord(7, 3, 0), aborted=(ABORTED,))
    data = batch(record(3, b"a"), producer=(7, 0, 5), attributes=TRANSACTIONAL)
    assert left(only(one.filtered(of(data)))) == []


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_without_records_gets_its_horizon_and_then_goes(commits: bool) -> None:
    found = of(only(filter_of().filtered(of(marker(5, 7, commits=commits)))))
    assert found.header.delete_horizon_ms == HORIZON_MS
    assert found.records() == of(marker(5, 7, commits=commits)).records()
    later = marker(5, 7, commits=commits, horizon_ms=NOW_MS + 1)
    assert filter_of().filtered(of(later)) == Kept(None, 5, NOW_MS)
    assert filter_of().filtered(of(marker(5, 7, commits=commits, horizon_ms=NOW_MS))) is None


def test_a_marker_stays_while_records_of_its_transaction_are_there() -> None:
    one = filter_of({b"a": 3})
    one.filtered(of(batch(record(3, b"a"), producer=(7, 0, 0), attributes=TRANSACTIONAL)))
    expired = marker(5, 7, commits=True, horizon_ms=NOW_MS)
    assert one.filtered(of(expired)) == Kept(None, 5, NOW_MS)
    assert one.filtered(of(marker(6, 7, commits=True, horizon_ms=NOW_MS))) is None
    without = filter_of({b"a": 3})
    without.filtered(of(batch(record(3, b"a"), producer=(7, 0, 0))))
    assert without.filtered(of(expired)) is None, "no transaction was met"


def test_an_aborted_transaction_whose_records_are_behind_lets_its_marker_go() -> None:
    one = filter_of(aborted=(ABORTED,))
    assert one.filtered(of(marker(5, 7, commits=False, horizon_ms=NOW_MS))) is None
    assert one._transactions.take_retained() == []


def test_the_marker_with_the_epoch_of_an_active_producer_stays() -> None:
    expired = marker(5, 7, commits=True, epoch=3, horizon_ms=NOW_MS)
    empty = only(filter_of({}, LastRecord(7, -1, 3)).filtered(of(expired)))
    header = of(empty).header
    assert (header.is_control, header.is_transactional, header.records_count) == (True, True, 0)
    assert filter_of({}, LastRecord(7, -1, 4)).filtered(of(expired)) is None
    assert only(filter_of({}, LastRecord(7, -1, 3)).filtered(of(empty))) == empty
    assert filter_of().filtered(of(empty)) is None
    data = batch(record(5, b"a"), producer=(7, 3, 0))
    assert filter_of({b"a": 9}, LastRecord(7, -1, 3)).filtered(of(data)) is None


def test_control_records_of_another_kind_stay() -> None:
    leader_change = batch(record(5, b"\0\0\0\2", b"x"), attributes=0x20)
    assert filter_of().filtered(of(leader_change)) == Kept(None, 5, NOW_MS)


# -- damage and old messages ----------------------------------------------------------------------


def test_a_wrong_checksum_is_refused() -> None:
    content = bytearray(batch(record(3, b"a")))
    content[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="CRC of the batch is wrong"):
        filter_of({b"a": 3}).filtered(of(bytes(content)))


def old(magic: int, codec: Codec) -> LegacyBatch:
    return next(
        each
        for each in WRAPPERS
        if (each.magic, each.codec) == (magic, codec) and each.records()[0].offset > 0
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_keeps_the_newest_of_its_messages(magic: int) -> None:
    one = old(magic, Codec.GZIP)
    records = [each for each in one.records() if each.key is not None]
    newest = {each.key or b"": int(each.offset) for each in records}
    keyless = len(one.records()) - len(records)
    first = records[0]
    newest[first.key or b""] = one.last_offset + 5
    batch_filter = filter_of(newest)
    kept = batch_filter.filtered(one)
    assert kept is not None
    assert kept.content is not None
    expected = [each.offset for each in records if newest[each.key or b""] == each.offset]
    assert [each[0] for each in left(kept.content)] == expected
    assert kept.last_offset == expected[-1]
    assert batch_filter._stats.invalid_messages_read == keyless
    gone = filter_of(dict.fromkeys(newest, one.last_offset + 5))
    assert gone.filtered(one) is None
    same = filter_of({}, latest=0).filtered(one)
    assert same == Kept(None, one.last_offset, one.timestamp_ms)


def test_a_tombstone_of_magic_1_goes_by_the_age_of_its_segment() -> None:
    found = [
        one
        for one in (each for wrapper in WRAPPERS for each in [wrapper])
        if one.magic == 1 and any(each.key and each.value is None for each in one.records())
    ]
    one = found[0]
    newest = {each.key: each.offset for each in one.records() if each.key is not None}
    tombstones = {
        each.offset
        for each in one.records()
        if each.value is None and each.key is not None and newest[each.key] == each.offset
    }
    assert tombstones
    keeps = filter_of(newest, keeps_old=True).filtered(one)
    drops = filter_of(newest, keeps_old=False).filtered(one)
    assert keeps is not None
    assert drops is not None
    kept = {each[0] for each in left(keeps.content or bytes(one.buffer))}
    assert kept - {each[0] for each in left(drops.content or b"")} == tombstones


def test_an_empty_form_of_old_messages_does_not_exist() -> None:
    one = old(1, Codec.GZIP)
    gone = {each.key: 10**6 for each in one.records() if each.key is not None}
    assert filter_of(gone, upper=one.last_offset + 1).filtered(one) is None
    assert list(iterate_any(b"")) == []
