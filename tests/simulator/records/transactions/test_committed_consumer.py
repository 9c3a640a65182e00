"""The records of a response that a reader of what is committed is given."""

from simulator.records.requests import Producer, batch
from simulator.records.transactions import requests
from simulator.records.transactions.consumer import committed_batches
from wire.batches.batch import iterate_batches
from wire.batches.transaction_markers import marker_batch


def marker(producer_id, *, is_commit):
    made = marker_batch(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=5)
    return bytes(made.buffer)


def written(producer_id, *values):
    return requests.batch(list(values), 5, Producer(producer_id, 0), 0)


def placed(*contents):
    """Batches one behind the other, from offset 10 on."""
    placed, offset = [], 10
    for content in contents:
        changed = offset.to_bytes(8, "big") + content[8:]
        (found,) = iterate_batches(changed)
        offset = found.header.end_offset
        placed.append(changed)
    return b"".join(placed)


def visible(content, *aborted):
    batches = committed_batches(content, aborted)
    return [record.value for found in batches for record in found.records()]


def test_aborted_values_and_markers_are_left_out():
    content = placed(
        written(1, b"a"), written(2, b"b"), marker(1, is_commit=False), marker(2, is_commit=True)
    )
    assert visible(content) == [b"a", b"b"]
    assert visible(content, (10, 1)) == [b"b"]
    assert visible(content, (11, 2), (10, 1)) == []


def test_a_producer_is_read_again_behind_the_abort_marker():
    content = placed(written(1, b"a"), marker(1, is_commit=False), written(1, b"b"))
    assert visible(content, (10, 1)) == [b"b"]
    kept = placed(written(1, b"a"), marker(1, is_commit=True), written(1, b"b"))
    assert visible(kept, (10, 1)) == [], "only an abort ends it"


def test_an_abort_that_begins_behind_a_batch_does_not_concern_it():
    content = placed(written(1, b"a"), marker(1, is_commit=True), written(1, b"b"))
    assert visible(content, (12, 1)) == [b"a"]


def test_values_without_a_transaction_are_not_those_of_one():
    content = placed(written(1, b"a"), batch([b"x"], 5, Producer(1, 0), 0))
    assert visible(content, (10, 1)) == [b"x"]


def test_a_transaction_that_began_before_the_response_is_aborted_too():
    content = placed(written(1, b"a"), marker(1, is_commit=False))
    assert visible(content, (3, 1)) == []
