"""Logs of the nodes beside the history: equal where committed, nothing acknowledged lost."""

from uuid import UUID

import pytest

from jepsen.linearizability import Event
from jepsen.logs import LOG_FOLDER, check_logs
from wire.batches.batch import encode_batch

ID = UUID(int=77 << 64 | 1)
CREATED = Event(process=0, type="ok", f="create", value=["t", str(ID)])


def batch(offset, value=b"x", epoch=1):
    return encode_batch([value], offset, epoch, 1000)


@pytest.fixture
def folders(tmp_path):
    """Three nodes with the same log; the last one has more that is not committed."""
    log = batch(0) + batch(1, b"topic" + ID.bytes) + batch(2)
    found = {}
    for node_id in (1, 2, 3):
        place = tmp_path / f"node{node_id}" / LOG_FOLDER
        place.mkdir(parents=True)
        (place / f"{0:020d}.log").write_bytes(log + (batch(3) if node_id == 3 else b""))
        found[node_id] = tmp_path / f"node{node_id}"
    return found


def rewrite(folders, node_id, *batches):
    (folders[node_id] / LOG_FOLDER / f"{0:020d}.log").write_bytes(b"".join(batches))


def verdict(folders, mark=3, events=(CREATED,)):
    check, _ = check_logs(folders, mark, events)
    return check.verdict, check.reason


def test_equal_logs(folders):
    check, batches = check_logs(folders, 3, [CREATED])
    assert (check.verdict, batches) == ("valid", 3)


def test_another_record_at_one_offset(folders):
    rewrite(folders, 2, batch(0), batch(1, b"other"), batch(2))
    assert verdict(folders) == ("invalid", "nodes 1 and 2: offset 1 differs (epochs 1 and 1)")
    rewrite(folders, 2, batch(0), batch(1, b"topic" + ID.bytes, epoch=2), batch(2, epoch=2))
    assert verdict(folders)[1] == "nodes 1 and 2: offset 1 differs (epochs 1 and 2)"


def test_what_is_above_the_high_watermark_may_differ(folders):
    rewrite(folders, 3, batch(0), batch(1, b"topic" + ID.bytes), batch(2), batch(3, b"y"))
    rewrite(folders, 2, batch(0), batch(1, b"topic" + ID.bytes), batch(2), batch(3, b"z"))
    assert verdict(folders)[0] == "valid"


def test_a_log_that_ends_too_early(folders):
    rewrite(folders, 2, batch(0), batch(1, b"topic" + ID.bytes))
    assert verdict(folders) == ("invalid", "node 2: ends at 2, not 3")


def test_an_acknowledged_topic_in_no_log(folders):
    lost = Event(process=0, type="ok", f="create", value=["lost", str(UUID(int=9 << 64))])
    unknown = Event(process=1, type="info", f="create", value=["maybe", None])
    reason = "1 acknowledged topics are in no log, such as lost"
    assert verdict(folders, events=(CREATED, lost, unknown)) == ("invalid", reason)


def test_damage_and_absence(folders):
    good = batch(0) + batch(1) + batch(2)
    rewrite(folders, 2, good[:-1] + bytes([good[-1] ^ 1]))
    assert "node 2: 00000000000000000000.log: wrong checksum at 2" in verdict(folders)[1]
    rewrite(folders, 2)
    assert verdict(folders) == ("invalid", "node 2: ends at 0, not 3")
    log = folders[2] / LOG_FOLDER / f"{0:020d}.log"
    log.unlink()
    log.mkdir()
    assert verdict(folders) == ("unknown", f"node 2: {log}: Is a directory")
    assert verdict(folders, mark=0, events=())[0] == "unknown", "nothing to compare proves nothing"
