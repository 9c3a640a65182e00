"""Copies of a log that hold what is committed: only these are read."""

import shutil
from pathlib import Path

import pytest

from pipeline.core.audit.audit import check_file_fully, judge_partition, plan_audit
from pipeline.core.reading.discovery import discover
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.stream import replicas
from pipeline.core.reading.watermark import committed_copies, inferred_from_batches, one_log_a_voter
from pipeline.jobs.history.input import choose_log
from tests.pipeline.segments import batch, write_high_watermark, write_partition
from wire.batches.batch import encode_control_batch

LEADER_CHANGE = 2
METADATA = "__cluster_metadata-0"


def elected(offset: int, epoch: int, leader: int, voters: tuple[int, ...]) -> bytes:
    """The control batch with which a leader begins its epoch."""
    ids = b"".join(voter.to_bytes(4, "big") + b"\0" for voter in voters)
    body = b"\0\0" + leader.to_bytes(4, "big") + bytes([len(voters) + 1]) + ids + b"\1\0"
    return encode_control_batch([(LEADER_CHANGE, body)], offset, epoch, 1_700_000_000_000)


def node(root: Path, number: int, *batches: bytes) -> None:
    home = root / f"n{number}"
    write_partition(home, batches, name=METADATA)
    (home / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=c\n")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Node 1 led epoch 1 and wrote a long tail alone; 2 and 3 went on without it."""
    begin = [elected(0, 1, 1, (1, 2, 3)), batch(1, [b"a", b"b"])]
    on = [elected(3, 2, 2, (1, 2, 3)), batch(4, [b"c"], epoch=2)]
    node(tmp_path, 1, *begin, *(batch(at, [b"x"]) for at in range(3, 30)))
    node(tmp_path, 2, *begin, *on, batch(5, [b"d"], epoch=2))
    node(tmp_path, 3, *begin, *on)
    return tmp_path


def test_the_longest_copy_is_not_read_when_its_tail_is_not_committed(three: Path) -> None:
    end, copies = committed_copies(discover([str(three)]).partitions)
    assert end == 5
    assert [one.node_id for one in copies] == [2, 3]
    choice = choose_log([str(three)])
    assert (choice.partition.node_id, choice.end) == (2, 5)
    chosen = replicas(parse_options({"path": str(three)}))["__cluster_metadata", 0]
    assert chosen.files.node_id in (2, 3)
    assert (chosen.end.offset, chosen.end.epoch) == (5, 2)


def test_a_batch_of_an_old_epoch_is_committed_with_one_of_its_leaders_own(tmp_path: Path) -> None:
    """Raft, figure 8: node 3 can be elected with the vote of node 2, and cut offset 1 of both."""
    voters = (1, 2, 3)
    begin, old, own = elected(0, 1, 1, voters), batch(1, [b"a"]), elected(2, 3, 1, voters)
    node(tmp_path, 1, begin, old, own)
    node(tmp_path, 2, begin, old)
    node(tmp_path, 3, begin, elected(1, 2, 3, voters))
    end, copies = committed_copies(discover([str(tmp_path)]).partitions)
    assert (end, [one.node_id for one in copies]) == (1, [1, 2, 3])
    node(tmp_path, 2, begin, old, own)
    end, copies = committed_copies(discover([str(tmp_path)]).partitions)
    assert (end, [one.node_id for one in copies]) == (3, [1, 2])


FIRST, OLD, OWN, OTHER = (1, 1, 0), (2, 1, 7), (3, 3, 8), (2, 2, 9)  # end, epoch, checksum


@pytest.mark.parametrize(
    ("logs", "voters", "expected"),
    [
        # the fourth log wins with the third and, of five voters, the one without a log here
        ([{FIRST, OLD, OWN}, {FIRST, OLD, OWN}, {FIRST, OLD}, {FIRST, OTHER}], 4, 2),
        ([{FIRST, OLD, OWN}, {FIRST, OLD, OWN}, {FIRST, OLD}, {FIRST, OTHER}], 5, 1),
        # a log that begins after the batch, and one that does with another batch
        ([{FIRST, OLD}, {FIRST, OLD}, {(5, 4, 1)}], 3, 2),
        ([{FIRST, OLD}, {FIRST, OLD}, {(2, 4, 1)}], 3, 1),
        # other bytes of the same offset and epoch
        ([{FIRST, OLD}, {FIRST, OLD}, {FIRST, (2, 1, 8)}], 3, 2),
        # equal logs vote for one another
        ([{FIRST, OLD, (4, 3, 1)}, {FIRST, OLD, (4, 3, 2)}, {FIRST, OLD, (5, 3, 3)},
          {FIRST, (4, 3, 4)}, set()], 5, 1),
        # nothing that every electable log has
        ([{OLD}, {OLD}, {OTHER}], 3, 0),
        ([{OLD}, {OLD}, set()], 3, 2),
    ],
)  # fmt: skip
def test_what_no_election_undoes(
    logs: list[set[tuple[int, int, int]]], voters: int, expected: int
) -> None:
    assert inferred_from_batches(logs, voters) == expected


def test_without_a_majority_the_most_recent_copy_is_read(three: Path) -> None:
    inputs = [str(three / "n1"), str(three / "n3")]
    voters = (1, 2, 3, 4, 5)
    node(three, 1, elected(0, 1, 1, voters), *(batch(at, [b"x"]) for at in range(1, 30)))
    node(three, 3, elected(0, 1, 1, voters), elected(1, 2, 2, voters))
    choice = choose_log(inputs)
    assert (choice.partition.node_id, choice.end, choice.is_end_committed) == (3, 2, False)


def test_a_broker_is_believed_about_its_own_copy(tmp_path: Path) -> None:
    for number, (end, committed) in enumerate([(9, 2), (4, 4)]):
        home = tmp_path / f"n{number}"
        write_partition(home, [batch(at, epoch=number) for at in range(end)])
        write_high_watermark(home, committed)
        (home / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=c\n")
    end, copies = committed_copies(discover([str(tmp_path)]).partitions)
    assert (end, [one.node_id for one in copies]) == (4, [1])


def test_copies_that_have_nothing_in_common(tmp_path: Path) -> None:
    for number in (1, 2):
        node(tmp_path, number, elected(0, number, number, (1, 2, 3)))
    end, copies = committed_copies(discover([str(tmp_path)]).partitions)
    assert (end, len(copies)) == (0, 2)


def test_a_backup_of_a_node_is_no_second_voter(three: Path) -> None:
    shutil.copytree(three / "n3", three / "n3-backup")
    (log,) = (three / "n3-backup" / METADATA).glob("*.log")
    log.write_bytes(log.read_bytes() + batch(5, [b"old"], epoch=1))
    alone = [str(three / "n3"), str(three / "n3-backup")]
    assert committed_copies(discover(alone).partitions)[0] is None
    assert not choose_log(alone).is_end_committed
    end, copies = committed_copies(discover([str(three)]).partitions)
    assert (end, [one.node_id for one in copies]) == (5, [2, 3, 3])


def test_the_most_recent_copy_of_a_node_votes() -> None:
    old, new = {(9, 1, 7)}, {(4, 2, 8)}
    for logs in ([(1, old), (1, new)], [(1, new), (1, old)]):
        assert one_log_a_voter([*logs, (2, set())]) == [new, set()]


def test_an_audit_takes_no_backup_for_a_voter(tmp_path: Path) -> None:
    begin = elected(0, 1, 1, (1, 2, 3))
    node(tmp_path, 3, begin, batch(1, epoch=2))
    shutil.copytree(tmp_path / "n3", tmp_path / "n3-backup")
    write_partition(tmp_path / "n3-backup", [begin, batch(1, [b"other"])], name=METADATA)
    plan = plan_audit([str(tmp_path)])
    ((key, copies),) = plan.copies.items()
    reports = [check_file_fully(task) for task in plan.tasks if task.key == key]
    differences = judge_partition(copies, reports).comparison.differences
    assert [one.below_hw for one in differences] == [None]  # one voter of three tells nothing
