"""Offsets of the logs in a log directory, taken some at a time while logs come and go."""

from storage.logs.offsets_record import OffsetsRecord
from tests.storage.log_brokers import HIGH_WATERMARK, IDS, LOG_START, NOW, Broker, fill, recorded

A, B, C = ("a", 0), ("a", 1), ("a", 2)


def test_some_are_taken_at_a_time() -> None:
    written: list[object] = []
    record = OffsetsRecord([A, B, C], {A: 1, C: 3}.get, {("b", 0): 9}, written.append)
    assert (record.left_count, record.take(2), record.is_taken) == (3, 2, False)
    assert (record.left_count, record.take(2), record.is_taken) == (1, 1, True)
    record.run()
    assert written == [{("b", 0): 9, A: 1, C: 3}]
    assert record._offsets == {}, "nothing is kept"


def test_a_log_that_goes_is_left_out_until_all_are_taken() -> None:
    written: list[object] = []
    record = OffsetsRecord([A, B], {A: 1, B: 2}.get, {}, written.append)
    record.take(1)
    record.forget(A)
    record.forget(C)
    record.take(1)
    record.forget(B)
    record.run()
    assert written == [{B: 2}], "another thread may write it by now"


def test_a_log_that_goes_before_its_offsets_are_taken() -> None:
    broker = Broker()
    fill(broker.create(), 1)
    directory = broker.manager.directories["/d"]
    records = [
        directory.recovery_points_record(),
        directory.log_starts_record(),
        directory.high_watermarks_record(),
    ]
    broker.delete("a", 0, NOW)
    for record in records:
        record.take(1)
        record.run()
    for name in ("recovery-point-offset-checkpoint", LOG_START, HIGH_WATERMARK):
        assert recorded(broker, name) == {}


def test_the_copy_of_a_replica_that_moves_here() -> None:
    broker = Broker(None, "/d", "/e")
    fill(broker.create(path="/e"), 3)
    task = broker.manager.create_future("a", 0, IDS["a"], "/d", NOW)
    task.run()
    copy = broker.manager.loaded(task)
    assert copy is not None
    fill(copy, 3)
    copy.set_high_watermark(3)
    copy.raise_log_start_to(2)
    directory = broker.manager.directories["/d"]
    directory.note_future(A)
    directory.record_log_starts()
    directory.record_high_watermarks()
    assert recorded(broker, LOG_START) == {A: 2}
    assert recorded(broker, HIGH_WATERMARK) == {A: 3}
    records = [directory.log_starts_record(), directory.high_watermarks_record()]
    broker.manager.delete_future("a", 0, NOW)
    for record in records:
        record.take(1)
        record.run()
    assert recorded(broker, LOG_START) == recorded(broker, HIGH_WATERMARK) == {}
