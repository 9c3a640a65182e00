"""The transactions of a log, read from its batches."""

from simulator.checks.partitions.record_logs import StoredBatch
from simulator.checks.partitions.transaction_view import view_of


def log(*rows):
    """Batches `(producer, epoch, values)`; True or False is a marker, None is no producer."""
    batches, offset = [], 0
    for producer, epoch, content in rows:
        is_marker = isinstance(content, bool)
        values = (b"marker",) if is_marker else tuple(content)
        batches.append(
            StoredBatch(
                base_offset=offset,
                end_offset=offset + len(values),
                leader_epoch=0,
                producer_id=-1 if producer is None else producer,
                producer_epoch=epoch,
                base_sequence=0,
                values=values,
                content=b"",
                is_transactional=producer is not None,
                marker=content if is_marker else None,
            )
        )
        offset += len(values)
    return batches


def test_values_are_visible_behind_the_marker_of_their_commit():
    view = view_of(log((1, 0, [b"a", b"b"]), (2, 0, [b"c"]), (1, 0, True), (2, 0, False)))
    assert view.visible == {0: b"a", 1: b"b", 2: None, 3: None, 4: None}
    assert view.spans == [(0, 3), (2, 4)]
    assert (view.open, view.wrong) == ([], "")


def test_what_is_open_is_not_visible_and_what_has_no_transaction_is():
    view = view_of(log((None, -1, [b"x"]), (1, 0, [b"a"]), (1, 0, [b"b"])))
    assert view.visible == {0: b"x", 1: None, 2: None}
    assert view.open == [1]


def test_a_marker_without_a_transaction_ends_none():
    view = view_of(log((1, 0, True), (1, 0, [b"a"]), (1, 1, True), (1, 1, True)))
    assert view.spans == [(1, 2)]
    assert view.visible == {0: None, 1: b"a", 2: None, 3: None}


def test_what_is_stable_ends_before_a_transaction_whose_marker_is_not_committed():
    view = view_of(log((1, 0, [b"a", b"b"]), (2, 0, [b"c"]), (1, 0, True)))
    assert [view.stable_below(end) for end in (0, 2, 3, 4)] == [0, 0, 0, 2]
    ended = view_of(log((1, 0, [b"a"]), (1, 0, True), (None, -1, [b"x"])))
    assert [ended.stable_below(end) for end in (1, 2, 3)] == [0, 2, 3]


def test_an_older_epoch_behind_a_newer_one_is_wrong():
    assert view_of(log((1, 1, [b"a"]), (1, 0, [b"b"]))).wrong == "1 is of epoch 0 of 1 behind 1"
    assert view_of(log((1, 1, False), (1, 0, [b"b"]))).wrong == "1 is of epoch 0 of 1 behind 1"
    assert view_of(log((1, 1, [b"a"]), (2, 0, [b"b"]), (1, 1, True))).wrong == ""


def test_a_transaction_of_two_epochs_is_wrong():
    view = view_of(log((1, 0, [b"a"]), (1, 1, [b"b"])))
    assert view.wrong == "1 has another epoch than its transaction"
    assert view_of(log((1, 0, [b"a"]), (1, 1, True), (1, 1, [b"b"]))).wrong == ""
