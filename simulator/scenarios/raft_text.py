"""Raft messages, effects and roles as lines of text, and peers' messages read from text.

Reading and writing use the same words: what a node prints as `1 -> 2 Fetch epoch=1 offset=3
last_epoch=1 hw=3` reaches a node by `recv 2 Fetch from=1 epoch=1 offset=3 last_epoch=1 hw=3`.
`-` is an unknown id. A position is `EPOCH/END`, records are `EPOCHxCOUNT`, followed by `!` when
their bytes are damaged, a snapshot is `END-EPOCH`; every END is exclusive.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from raft import error_codes
from raft import messages as m
from raft.config import RaftConfig
from raft.effects import LeaderChanged
from raft.roles import Candidate, Prospective, Role
from simulator.scenarios.command import Command, ScenarioError, to_int
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey

Record = tuple[int, str]
"""Epoch and value of a record in the log of a scenario."""

ERROR_NAMES: Final = {
    value: name
    for name, value in vars(error_codes).items()
    if isinstance(value, int) and not name.startswith("_")
}
ERROR_CODES: Final = {name: code for code, name in ERROR_NAMES.items()}
DAMAGED: Final = "damaged"
"""Value of a record whose bytes are not what was sent: a log appends nothing from it on."""
ANSWERS: Final[dict[type[m.RaftRequest], Callable[..., m.RaftResponse]]] = {
    m.VoteRequest: m.VoteResponse,
    m.BeginQuorumEpochRequest: m.BeginQuorumEpochResponse,
    m.EndQuorumEpochRequest: m.EndQuorumEpochResponse,
    m.FetchRequest: m.FetchResponse,
    m.FetchSnapshotRequest: m.FetchSnapshotResponse,
    m.DescribeQuorumRequest: m.DescribeQuorumResponse,
}


def name_of(value: int | None) -> str:
    """An id as text, or `-`."""
    return "-" if value is None else str(value)


def directory_id_of(number: int) -> DirectoryId:
    """Directory id that `dir=NUMBER` stands for."""
    return DirectoryId(number.to_bytes(16, "big"))


def encode_records(records: list[Record]) -> bytes:
    """Encode records for a Fetch answer of a scenario."""
    return msgspec.json.encode(records)


def decode_records(data: bytes) -> list[Record]:
    """Decode the records of such bytes."""
    return msgspec.json.decode(data, type=list[Record])


def parse_records(text: str) -> list[Record]:
    """Read `1x3,2x1!`: three records of epoch 1, then a damaged one of epoch 2; `-`: none."""
    records: list[Record] = []
    for part in text.split(",") if text != "-" else []:
        epoch, _, count = part.removesuffix("!").partition("x")
        value = DAMAGED if part.endswith("!") else "r"
        records += [(to_int(epoch), value)] * to_int(count or "1")
    return records


def parse_position(text: str) -> OffsetAndEpoch:
    """Read `EPOCH/END`."""
    epoch, _, end = text.partition("/")
    return OffsetAndEpoch(Offset(to_int(end)), LeaderEpoch(to_int(epoch)))


def parse_snapshot_id(text: str) -> OffsetAndEpoch:
    """Read `END-EPOCH`."""
    end, _, epoch = text.partition("-")
    return OffsetAndEpoch(Offset(to_int(end)), LeaderEpoch(to_int(epoch)))


def position_text(position: OffsetAndEpoch) -> str:
    """Inverse of `parse_position`."""
    return f"{position.epoch}/{position.offset}"


def snapshot_text(snapshot_id: OffsetAndEpoch) -> str:
    """Inverse of `parse_snapshot_id`."""
    return f"{snapshot_id.offset}-{snapshot_id.epoch}"


def kind_of(message: m.RaftRequest | m.RaftResponse) -> str:
    """Name of the RPC."""
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def role_text(role: Role) -> str:
    """A role as text, with what identifies it."""
    text = f"{type(role).__name__.lower()} epoch={role.epoch}"
    if isinstance(role, Prospective | Candidate):
        votes = role.votes
        text += f" votes={len(votes.granted)}/{len(votes.voters)}"
    if role.leader_id is not None:
        text += f" leader={role.leader_id}"
    if role.voted_key is not None:
        text += f" voted={key_text(role.voted_key)}"
    return text


def key_text(key: ReplicaKey) -> str:
    """A replica key as text; the directory id only when there is one."""
    if key.directory_id is None:
        return str(key.id)
    return f"{key.id}@{int.from_bytes(key.directory_id, 'big')}"


def request_text(request: m.RaftRequest) -> str:
    """A request as text, without its sender and receiver."""
    match request:
        case m.VoteRequest():
            pre = " pre" if request.pre_vote else ""
            return (
                f"Vote epoch={request.replica_epoch} last_epoch={request.last_epoch} "
                f"end={request.last_end_offset}{pre}"
            )
        case m.BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch={request.leader_epoch}"
        case m.EndQuorumEpochRequest():
            preferred = ",".join(map(key_text, request.preferred_candidates)) or "-"
            return f"EndQuorumEpoch epoch={request.leader_epoch} preferred={preferred}"
        case m.FetchRequest():
            return (
                f"Fetch epoch={request.current_leader_epoch} offset={request.fetch_offset} "
                f"last_epoch={request.last_fetched_epoch} hw={_watermark(request.high_watermark)}"
                f"{_unnamed(request)}"
            )
        case m.FetchSnapshotRequest():
            return (
                f"FetchSnapshot epoch={request.current_leader_epoch} "
                f"snapshot={snapshot_text(request.snapshot_id)} position={request.position_bytes}"
                f"{_unnamed(request)}"
            )
        case _:
            voter_id = getattr(request, "voter_id", None)
            return kind_of(request) + ("" if voter_id is None else f" voter={voter_id}")


def _unnamed(request: m.FetchRequest | m.FetchSnapshotRequest) -> str:
    """Tell a fetch that names no replica: it acknowledges nothing."""
    return " unnamed" if request.replica_id is None else ""


def _watermark(high_watermark: int) -> str:
    """A high watermark as text; `?` below Fetch v18, `-` while unknown."""
    if high_watermark == m.HIGH_WATERMARK_UNSUPPORTED:
        return "?"
    return "-" if high_watermark < 0 else str(high_watermark)


def response_text(response: m.RaftResponse, base_offset: int = 0) -> str:
    """An answer as text, without its sender and receiver; its records begin at `base_offset`."""
    if isinstance(response, m.DescribeQuorumResponse):
        return _describe_quorum_text(response)
    if not isinstance(response, m.LeaderResponse):
        error = f" error={ERROR_NAMES[response.error_code]}" if response.error_code else ""
        said = ""
        if isinstance(response, m.TransferLeadershipResponse) and response.error_message:
            said = f", {response.error_message}"
        return kind_of(response) + error + said
    return _leader_response_text(response, base_offset)


def _leader_response_text(response: m.LeaderResponse, base_offset: int) -> str:
    """Answer of a controller to another one, with the leader that it names."""
    text = kind_of(response)
    if response.top_error_code:
        return f"{text} top_error={ERROR_NAMES[response.top_error_code]}"
    if response.error_code:
        text += f" error={ERROR_NAMES[response.error_code]}"
    elif isinstance(response, m.VoteResponse):
        text += " granted" if response.vote_granted else " rejected"
    text += f" epoch={response.leader_epoch} leader={name_of(response.leader_id)}"
    if isinstance(response, m.FetchResponse) and not response.error_code:
        text += f" hw={_watermark(response.high_watermark)}"
        if response.diverging_epoch is not None:
            text += f" diverging={position_text(response.diverging_epoch)}"
        if response.snapshot_id is not None:
            text += f" snapshot={snapshot_text(response.snapshot_id)}"
        if response.records:
            count = len(decode_records(response.records))
            text += f" records=[{base_offset},{base_offset + count})"
    if isinstance(response, m.FetchSnapshotResponse) and not response.error_code:
        end = response.position_bytes + len(response.chunk)
        text += f" bytes=[{response.position_bytes},{end}) of {response.size_bytes}"
    return text


def endpoint_text(response: m.RaftResponse) -> str:
    """Endpoint of the leader in an answer as text; empty when it names none."""
    if not isinstance(response, m.LeaderResponse) or response.leader_endpoint is None:
        return ""
    endpoint = response.leader_endpoint
    return f" endpoint={endpoint.host}:{endpoint.port}"


def _describe_quorum_text(response: m.DescribeQuorumResponse) -> str:
    """DescribeQuorum in one line: id, end offset, last fetch, last caught up."""
    if response.error_code:
        return f"DescribeQuorum error={ERROR_NAMES[response.error_code]}"

    def rows(replicas: tuple[m.ReplicaState, ...]) -> str:
        return " ".join(
            f"({r.replica_id} end={r.log_end_offset} fetch={r.last_fetch_timestamp_ms} "
            f"caught_up={r.last_caught_up_timestamp_ms})"
            for r in replicas
        )

    return (
        f"DescribeQuorum epoch={response.leader_epoch} leader={name_of(response.leader_id)} "
        f"hw={_watermark(response.high_watermark)} voters={rows(response.voters)} "
        f"observers={rows(response.observers) or '-'}"
    )


def loss_text(effect: LeaderChanged) -> str:
    """The cause of a change of the leader as text: what the replica saw, as what."""
    loss, leader = effect.loss, effect.leader
    assert loss is not None, f"{effect=}"
    waited = "" if effect.leaderless_ms is None else f" after {effect.leaderless_ms} ms"
    return (
        f"leader={name_of(leader.leader_id)} epoch={leader.epoch}{waited}: "
        f"{loss.cause} as {loss.role}, {loss.evidence}"
    )


def tokens_text(tokens: tuple[int, ...]) -> str:
    """Tokens as text."""
    return ",".join(map(str, tokens))


def _optional_id(command: Command, name: str) -> NodeId | None:
    """Read a node id; `-` or no option is none."""
    text = command.option(name, "-")
    return None if text == "-" else NodeId(to_int(text))


def _optional_directory(command: Command, name: str) -> DirectoryId | None:
    """Read a directory id by its number; `-` or no option is none."""
    text = command.option(name, "-")
    return None if text == "-" else directory_id_of(to_int(text))


def _parse_watermark(text: str) -> int:
    """Inverse of `_watermark`."""
    if text == "?":
        return m.HIGH_WATERMARK_UNSUPPORTED
    return -1 if text == "-" else to_int(text)


def parse_request(command: Command, config: RaftConfig) -> tuple[NodeId | None, m.RaftRequest]:
    """Read `recv NODE KIND from=ID ...`: sender and request."""
    sender = _optional_id(command, "from")
    cluster_text = command.option("cluster", config.cluster_id or "null")
    cluster_id = None if cluster_text == "null" else cluster_text
    kind = command.argument(1, "kind of request")
    epoch = LeaderEpoch(command.number_option("epoch", 0))
    if kind == "DescribeQuorum":
        return sender, m.DescribeQuorumRequest()
    if kind == "Fetch":
        return sender, m.FetchRequest(
            cluster_id=cluster_id,
            replica_id=sender,
            replica_directory_id=_optional_directory(command, "dir"),
            current_leader_epoch=epoch,
            fetch_offset=Offset(command.number_option("offset", 0)),
            last_fetched_epoch=LeaderEpoch(command.number_option("last_epoch", 0)),
            max_wait_ms=command.number_option("wait", 500),
            max_bytes=command.number_option("max_bytes", 1_000_000),
            high_watermark=_parse_watermark(command.option("hw", "?")),
        )
    if kind == "FetchSnapshot":
        return sender, m.FetchSnapshotRequest(
            cluster_id=cluster_id,
            replica_id=sender,
            replica_directory_id=_optional_directory(command, "dir"),
            current_leader_epoch=epoch,
            snapshot_id=parse_snapshot_id(command.option("snapshot", "0-0")),
            position_bytes=command.number_option("position", 0),
            max_bytes=command.number_option("max_bytes", 1_000_000),
        )
    if sender is None:
        raise ScenarioError(f"{kind} needs from=ID")
    return sender, _parse_voter_request(command, kind, sender, epoch, cluster_id)


def _parse_voter_request(
    command: Command, kind: str, sender: NodeId, epoch: LeaderEpoch, cluster_id: str | None
) -> m.RaftRequest:
    """Read one of the three requests among voters."""
    if kind == "EndQuorumEpoch":
        return m.EndQuorumEpochRequest(
            cluster_id=cluster_id,
            leader_id=sender,
            leader_epoch=epoch,
            preferred_candidates=tuple(ReplicaKey(NodeId(i)) for i in command.numbers("preferred")),
        )
    voter_id = _optional_id(command, "voter")
    voter_directory_id = _optional_directory(command, "voter_dir")
    if kind == "BeginQuorumEpoch":
        return m.BeginQuorumEpochRequest(
            cluster_id=cluster_id,
            voter_id=voter_id,
            voter_directory_id=voter_directory_id,
            leader_id=sender,
            leader_epoch=epoch,
        )
    if kind != "Vote":
        raise ScenarioError(f"no request {kind!r}")
    return m.VoteRequest(
        cluster_id=cluster_id,
        voter_id=voter_id,
        voter_directory_id=voter_directory_id,
        replica_id=sender,
        replica_directory_id=_optional_directory(command, "dir"),
        replica_epoch=epoch,
        last_epoch=LeaderEpoch(command.number_option("last_epoch", 0)),
        last_end_offset=Offset(command.number_option("end", 0)),
        pre_vote=command.has("pre"),
    )


def parse_response(command: Command, request: m.RaftRequest) -> m.RaftResponse:
    """Read `answer NODE PEER ...`: the peer's answer to the node's request in flight."""
    fields: dict[str, Any] = {
        "error_code": _error(command.option("error", "NONE")),
        "top_error_code": _error(command.option("top_error", "NONE")),
        "leader_id": _optional_id(command, "leader"),
        "leader_epoch": LeaderEpoch(command.number_option("epoch", 0)),
    }
    if isinstance(request, m.VoteRequest):
        fields["vote_granted"] = command.has("granted")
        command.has("rejected")
    elif isinstance(request, m.FetchRequest):
        fields["high_watermark"] = _parse_watermark(command.option("hw", "-"))
        if diverging := command.option("diverging", ""):
            fields["diverging_epoch"] = parse_position(diverging)
        if snapshot := command.option("snapshot", ""):
            fields["snapshot_id"] = parse_snapshot_id(snapshot)
        if records := command.option("records", ""):
            fields["records"] = encode_records(parse_records(records))
    elif isinstance(request, m.FetchSnapshotRequest):
        default_id = snapshot_text(request.snapshot_id)
        fields["snapshot_id"] = parse_snapshot_id(command.option("snapshot", default_id))
        fields["position_bytes"] = command.number_option("position", request.position_bytes)
        fields["size_bytes"] = command.number_option("size", 0)
        fields["chunk"] = b"s" * command.number_option("bytes", 0)
    return ANSWERS[type(request)](**fields)


def _error(name: str) -> int:
    """Code of an error name."""
    if name not in ERROR_CODES:
        raise ScenarioError(f"no error {name!r}, allowed: {', '.join(sorted(ERROR_CODES))}")
    return ERROR_CODES[name]
