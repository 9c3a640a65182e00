"""`quorum-state`: the epoch, the vote and the leader that a replica must not forget."""

import base64
import binascii
from typing import Any, Final

import msgspec

from storage.errors import CorruptFileError
from storage.vfs import Vfs, join, write_file_atomically
from wire.types import EPOCH_MAX, ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, ReplicaKey

QUORUM_STATE_NAME: Final = "quorum-state"
_VERSION_MAX: Final = 1
_INT32_MAX: Final = (1 << 31) - 1
_NONE: Final = -1
_MANDATORY: Final = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}


class ElectionState(msgspec.Struct, frozen=True, gc=False):
    """The content of the file."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None


def encode_quorum_state(
    state: ElectionState, voters: tuple[NodeId, ...] = (), version: int = 0
) -> bytes:
    """One line of JSON; version 0 lists the static voters, version 1 the voted directory id."""
    assert 0 <= version <= _VERSION_MAX, f"{version=}"
    assert 0 <= state.epoch <= _INT32_MAX, f"{state.epoch=}"
    assert state.leader_id != _NONE, "None is for none"
    voted = state.voted_key
    leader_id = _NONE if state.leader_id is None else state.leader_id
    voted_id = _NONE if voted is None else voted.id
    if version == 0:
        content: dict[str, Any] = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        }
    else:
        directory_id = ZERO_UUID if voted is None else voted.directory_id or ZERO_UUID
        content = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": base64.urlsafe_b64encode(directory_id)[:22].decode(),
            "data_version": 1,
        }
    return msgspec.json.encode(content)


def decode_quorum_state(content: bytes, path: str) -> ElectionState:
    """Read version 0 or 1; unknown fields are ignored, as Kafka does.

    Raises:
        CorruptFileError: anything else, and an epoch that would be refused from a peer too.
    """
    state = _decode(content, path)
    if state.epoch > EPOCH_MAX:
        reason = f"field 'leaderEpoch' cannot be {state.epoch}, allowed: 0 to {EPOCH_MAX}"
        raise CorruptFileError(path, reason)
    return state


def static_voter_ids(content: bytes) -> tuple[NodeId, ...]:
    """Return the voters of the configuration that version 0 was written with, ascending.

    Nothing is decided by them, in Kafka neither; empty for version 1 and where they are damaged.
    """
    fields = msgspec.json.decode(content)
    voters = fields.get("currentVoters") if isinstance(fields, dict) else None
    rows = voters if isinstance(voters, list) else []
    ids = [row.get("voterId") if isinstance(row, dict) else None for row in rows]
    return tuple(sorted({NodeId(each) for each in ids if isinstance(each, int)}))


def _decode(content: bytes, path: str) -> ElectionState:
    """Election state of the JSON text, with Kafka's messages for a file that holds none."""
    reading = f"Error while reading the Quorum status from the file {path}"
    try:
        fields = msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:  # the latter: brackets nested too deep
        reason = "the file is empty" if not content else str(error)
        raise CorruptFileError(path, f"{reading}: {reason}") from error
    if not isinstance(fields, dict):
        raise CorruptFileError(path, f"{reading}: not a JSON object")
    version = fields.get("data_version")
    if not isinstance(version, int):
        raise CorruptFileError(
            path, f"{reading}: Deserialized node {content.decode()} does not have data_version"
        )
    if not 0 <= version <= _VERSION_MAX:
        raise CorruptFileError(
            path,
            f"data_version ({version}) is not within the min (0) and max ({_VERSION_MAX}) "
            "supported version",
        )
    for name in _MANDATORY[version]:
        if name not in fields:
            raise CorruptFileError(
                path, f"unable to locate field '{name}', which is mandatory in version {version}"
            )
    return _election_state(fields, path)


def _election_state(fields: dict[str, Any], path: str) -> ElectionState:
    """Election state of the fields of the file; -1 and the zero UUID become None."""
    numbers = []
    for name in ("leaderId", "leaderEpoch", "votedId"):
        value = fields[name]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not _NONE <= value <= _INT32_MAX:
            shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
            raise CorruptFileError(path, f"field '{name}' cannot be {shown}")
        numbers.append(value)
    leader_id, epoch, voted_id = numbers
    if epoch < 0:
        raise CorruptFileError(path, f"field 'leaderEpoch' cannot be {epoch}")
    directory_id: bytes | None = None
    if "votedDirectoryId" in fields and voted_id != _NONE:
        try:
            directory_id = base64.urlsafe_b64decode(str(fields["votedDirectoryId"]) + "==")
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError(path, f"field 'votedDirectoryId': {error}") from error
        if len(directory_id) != len(ZERO_UUID):
            raise CorruptFileError(path, "field 'votedDirectoryId' is not a UUID")
        if directory_id == ZERO_UUID:
            directory_id = None
    voted_key = None
    if voted_id != _NONE:
        key = None if directory_id is None else DirectoryId(directory_id)
        voted_key = ReplicaKey(NodeId(voted_id), key)
    leader = None if leader_id == _NONE else NodeId(leader_id)
    return ElectionState(LeaderEpoch(epoch), leader, voted_key)


class QuorumStateFile:
    """The file of one metadata log directory."""

    def __init__(self, vfs: Vfs, partition_directory: str, voters: tuple[NodeId, ...] = ()) -> None:
        self._vfs = vfs
        self._voters = voters
        self.path = join(partition_directory, QUORUM_STATE_NAME)

    def read(self) -> ElectionState | None:
        """Return the recorded state; None if there is no file yet.

        Raises:
            CorruptFileError: the file is invalid; it must not be ignored or overwritten.
        """
        if not self._vfs.exists(self.path):
            return None
        return decode_quorum_state(self._vfs.read(self.path), self.path)

    def static_voter_ids(self) -> tuple[NodeId, ...]:
        """Return the static voters that a valid file was written with; empty without a file."""
        return static_voter_ids(self._vfs.read(self.path)) if self._vfs.exists(self.path) else ()

    def write(self, state: ElectionState, version: int = 0) -> None:
        """Write the state; durable on return."""
        content = encode_quorum_state(state, self._voters, version)
        again = _decode(content, self.path)
        assert again.epoch == state.epoch, f"{again=} {state=}"
        assert again.leader_id == state.leader_id, f"{again=} {state=}"
        write_file_atomically(self._vfs, self.path, content)
