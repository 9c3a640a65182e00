"""Logs of a start behind a kill: what was cut, dropped or is missing is told."""

from tests.broker.record_hosts import Host, with_topics
from tests.storage.test_unified_log import produced


def test_a_damaged_tail_is_cut_and_told() -> None:
    host = Host(with_topics("a")).started()
    host.append(2)
    path = "/1/a-0/00000000000000000000.log"
    size = host.vfs.size(path)
    host.vfs.damage(path, size - 1, b"x")
    again = Host(with_topics("a"), host.vfs).started()
    assert again.partition().log.end_offset == 1
    (told,) = again.logged("log_recovered")
    assert (told["log"], told["path"], told["position"]) == ("a-0", path, size // 2)
    assert "CRC" in told["reason"]


def test_segments_behind_a_damaged_one_are_dropped_and_told() -> None:
    size = str(len(produced(1).buffer))
    host = Host(with_topics("a", internal_segment_bytes=size)).started()
    for _ in range(3):
        host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1_000)
    path = "/1/a-0/00000000000000000000.log"
    host.vfs.damage(path, host.vfs.size(path) - 1, b"x")
    again = Host(with_topics("a", internal_segment_bytes=size), host.vfs).started()
    assert again.partition().log.end_offset == 0
    cut, dropped = again.logged("log_recovered")
    assert (cut["position"], cut["end_offset"], cut["removed_bytes"]) == (0, 0, int(size))
    assert (len(dropped["paths"]), dropped["end_offset"], dropped["log"]) == (2, 0, "a-0")


def test_a_gap_between_segments_is_told() -> None:
    size = str(len(produced(1).buffer))
    host = Host(with_topics("a", internal_segment_bytes=size)).started()
    for _ in range(3):
        host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1_000)
    path = "/1/a-0/0000000000000000000{}.log"
    host.vfs.unlink(path.format(1))
    again = Host(with_topics("a", internal_segment_bytes=size), host.vfs).started()
    assert again.partition().log.end_offset == 3
    (told,) = again.logged("log_recovered")
    reason = "starts at offset 2, not at 1"
    assert told == {"log": "a-0", "path": path.format(2), "end_offset": 1, "reason": reason}
