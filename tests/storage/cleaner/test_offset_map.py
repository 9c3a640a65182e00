"""The map of a round: it counts as Kafka's, which ends a round at the same offset."""

from storage.cleaner.offset_map import OffsetMap, map_key, map_slots


def test_slots_are_those_of_kafka() -> None:
    assert map_slots(134217728, 1) == 5592405
    assert map_slots(134217728, 2) == 2796202
    assert map_slots(1 << 40, 2) == ((1 << 31) - 1) // 24
    assert int(map_slots(134217728, 1) * 0.9) == 5033164


def test_the_newest_offset_counts() -> None:
    offsets = OffsetMap(3)
    assert offsets.put_all(10, [(0, b"a"), (1, b"b"), (2, b"a")])
    assert offsets.offsets == {b"a": 12, b"b": 11}
    assert offsets.put_all(20, [(0, b"b")])
    assert offsets.offsets[b"b"] == 20


def test_a_full_map_ends_at_the_next_key_even_if_it_has_it() -> None:
    offsets = OffsetMap(2)
    assert offsets.put_all(10, [(0, b"a"), (3, b"b")])
    assert not offsets.put_all(20, [(0, b"a")])
    assert offsets.offsets == {b"a": 10, b"b": 13}


def test_a_map_that_fills_covers_the_last_key_that_it_has() -> None:
    offsets = OffsetMap(2)
    assert offsets.end_offset == 0
    assert not offsets.put_all(10, [(0, b"a"), (2, b"a"), (3, b"b"), (5, b"c")])
    assert offsets.latest_offset == 13
    assert offsets.end_offset == 14
    assert offsets.put_all(20, [])


def test_more_records_than_room_may_fit() -> None:
    offsets = OffsetMap(3)
    assert offsets.put_all(0, [(n, b"a") for n in range(5)])
    assert offsets.offsets == {b"a": 4}
    assert offsets.put_all(0, [(5, b"a"), (6, b"b"), (7, b"a")])
    assert offsets.put_all(0, [(8, b"c")])


def test_long_keys_are_hashed_to_something_that_is_no_key() -> None:
    assert map_key(b"k" * 63) == b"k" * 63
    hashed = map_key(b"k" * 64)
    assert isinstance(hashed, int)
    assert hashed != map_key(b"k" * 65)
    assert hashed.bit_length() <= 128
