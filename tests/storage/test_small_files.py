"""The small text files of a log directory, and names of snapshots: what a number may be."""

import json

import pytest

from storage.checkpoints.checkpoint_files import decode_offsets
from storage.checkpoints.epoch_checkpoint import decode_epochs
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import decode_meta_properties, decode_uuid
from storage.log_dir.quorum_state_file import decode_quorum_state
from storage.log_dir.snapshot_files import parse_snapshot_name
from wire.types import EPOCH_MAX, LeaderEpoch, Offset, OffsetAndEpoch

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
NO_NUMBERS = ("-5", "1_0", "+1", "\u0661", "", "x", str(10**22), "1.0")


def test_offsets_at_their_limits() -> None:
    content = f"0\n2\nt {INT32_MAX} {INT64_MAX}\nu 0 0\n".encode()
    assert decode_offsets(content, "f") == {("t", INT32_MAX): INT64_MAX, ("u", 0): 0}


@pytest.mark.parametrize("offset", [*NO_NUMBERS, str(INT64_MAX + 1)])
def test_what_no_offset_can_be(offset: str) -> None:
    with pytest.raises(CorruptFileError, match=r"f: malformed line 't 0.*allowed"):
        decode_offsets(f"0\n1\nt 0 {offset}\n".encode(), "f")


@pytest.mark.parametrize("partition", [*NO_NUMBERS, str(INT32_MAX + 1)])
def test_what_no_partition_can_be(partition: str) -> None:
    with pytest.raises(CorruptFileError, match=r"f: malformed line 't .*allowed"):
        decode_offsets(f"0\n1\nt {partition} 0\n".encode(), "f")


@pytest.mark.parametrize("header", ["0\n1_0\n", "0\n-1\n", "\u0660\n0\n", "0_0\n0\n"])
def test_what_no_header_can_be(header: str) -> None:
    with pytest.raises(CorruptFileError, match=r"not a checkpoint file.*from 0 to 2147483647"):
        decode_offsets(header.encode(), "f")


def epochs(*lines: str) -> list[tuple[int, int]]:
    content = "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()
    return [(entry.epoch, entry.start_offset) for entry in decode_epochs(content, "f").entries]


def test_epochs_at_their_limits() -> None:
    assert epochs("0 0", f"{INT32_MAX} {INT64_MAX}") == [(0, 0), (INT32_MAX, INT64_MAX)]


@pytest.mark.parametrize("line", [
    "99999999999 0", f"0 {INT64_MAX + 1}", "-1 0", "0 -1", "1_0 0", "1", "1 2 3",
])  # fmt: skip
def test_what_no_epoch_can_be(line: str) -> None:
    with pytest.raises(CorruptFileError, match=f"f: malformed line '{line}', allowed: epoch"):
        epochs(line)


def test_epochs_that_do_not_grow_take_the_place_of_others() -> None:
    """Kafka's LeaderEpochFileCache assigns one after the other when it reads the file."""
    assert epochs("1 0", "3 10", "2 20") == [(1, 0), (2, 20)]
    assert epochs("1 0", "3 10", "4 5") == [(1, 0), (4, 5)]
    assert epochs("1 0", "3 10", "1 5") == [(1, 5)]
    assert epochs("1 0", "1 7") == [(1, 0)]


def test_names_of_snapshots() -> None:
    largest = OffsetAndEpoch(Offset(INT64_MAX), LeaderEpoch(INT32_MAX))
    assert parse_snapshot_name(f"{INT64_MAX:020d}-{INT32_MAX:010d}.checkpoint") == largest
    for offset, epoch in (
        ("9" * 20, "0" * 10),
        (f"{INT64_MAX + 1:020d}", "0" * 10),
        ("0" * 20, f"{INT32_MAX + 1:010d}"),
        ("\u0661" * 20, "0" * 10),
        ("0" * 20, "\u0661" * 10),
    ):
        assert parse_snapshot_name(f"{offset}-{epoch}.checkpoint") is None


@pytest.mark.parametrize("text", ["", "AA", "A" * 21, "A" * 23, "A" * 26, "!" * 22])
def test_a_uuid_has_22_characters(text: str) -> None:
    assert decode_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\x01"
    with pytest.raises(ValueError, match="is not a UUID"):
        decode_uuid(text)


def quorum_state(leader_id: int = 1, epoch: int = 5) -> bytes:
    return json.dumps(
        {"leaderId": leader_id, "leaderEpoch": epoch, "votedId": -1, "appliedOffset": 0,
         "currentVoters": [], "data_version": 0}
    ).encode()  # fmt: skip


@pytest.mark.parametrize(("leader_id", "is_read"), [(INT32_MAX, True), (INT32_MAX + 1, False)])
def test_ids_in_quorum_state_are_int32(leader_id: int, *, is_read: bool) -> None:
    content = quorum_state(leader_id)
    if is_read:
        assert decode_quorum_state(content, "f").leader_id == leader_id
    else:
        with pytest.raises(CorruptFileError, match="field 'leaderId' cannot be 2147483648"):
            decode_quorum_state(content, "f")


@pytest.mark.parametrize("text", ["1_0", "", "one", "1" * 4_301])
def test_a_node_id_that_java_does_not_parse_is_damage(text: str) -> None:
    content = "version=1\nnode.id={}\ncluster.id=c\n"
    with pytest.raises(CorruptFileError, match="is not a number"):
        decode_meta_properties(content.format(text).encode(), "path")
    assert decode_meta_properties(content.format("+1").encode(), "path").node_id == 1


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX])
def test_epochs_of_a_quorum_state(epoch: int) -> None:
    assert decode_quorum_state(quorum_state(epoch=epoch), "f").epoch == epoch


@pytest.mark.parametrize("epoch", [EPOCH_MAX + 1, INT32_MAX])
def test_an_epoch_of_a_quorum_state_that_no_peer_takes(epoch: int) -> None:
    reason = f"f: field 'leaderEpoch' cannot be {epoch}, allowed: 0 to {EPOCH_MAX}"
    with pytest.raises(CorruptFileError, match=reason):
        decode_quorum_state(quorum_state(epoch=epoch), "f")
