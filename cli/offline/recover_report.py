"""Texts and JSON of `recover`: folders, voter sets, proofs, records kept and lost, next steps."""

from collections.abc import Sequence
from typing import Any, Final

from cli.offline.recover_records import NamedRecord
from kernel.lost_majority.reading import StoppedFolder
from raft.membership.lost_majority import RecoveryPlan, ReplicaLog, VotersProof
from storage.log_dir.meta_properties import encode_uuid
from wire.types import OffsetAndEpoch, ReplicaKey

RECORDS_SHOWN: Final = 20
"""Records of one list in the text; --json has all."""


def shown_key(key: ReplicaKey) -> str:
    """A voter as a person reads it."""
    return str(key.id) if key.directory_id is None else f"{key.id}:{encode_uuid(key.directory_id)}"


def _keys(keys: Sequence[ReplicaKey]) -> str:
    return ", ".join(map(shown_key, keys)) or "none"


def _key_object(key: ReplicaKey) -> dict[str, Any]:
    directory_id = None if key.directory_id is None else encode_uuid(key.directory_id)
    return {"id": key.id, "directory_id": directory_id}


def folder_object(folder: StoppedFolder) -> dict[str, Any]:
    """A folder as a JSON value."""
    election = folder.election
    voted = None if election is None else election.voted_key
    return {
        **_log_object(folder.replica),
        "cluster_id": folder.properties.cluster_id,
        "leader_id": None if election is None else election.leader_id,
        "voted": None if voted is None else _key_object(voted),
        "flushed_end_offset": folder.flushed_end_offset,
        "torn": folder.torn,
    }


def _log_object(log: ReplicaLog) -> dict[str, Any]:
    snapshot_id = log.snapshot_id
    return {
        "folder": log.name,
        "node": _key_object(log.key),
        "kraft_version": log.voters.kraft_version,
        "epoch": log.epoch,
        "last_epoch": log.position[0],
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "snapshot": None if snapshot_id is None else [snapshot_id.offset, snapshot_id.epoch],
        "voters": [_key_object(key) for key in log.voters.latest.keys],
        "counts_as_voter": log.is_evidence,
    }


def _folder_line(folder: StoppedFolder) -> str:
    words = [
        *_log_words(folder.replica),
        f"recorded as flushed to {folder.flushed_end_offset}",
    ]
    if folder.torn is not None:
        words.append(f"its last bytes are torn ({folder.torn})")
    return f"  {folder.replica.name}: {'; '.join(words)}\n"


def _log_words(log: ReplicaLog) -> list[str]:
    words = [
        f"node {shown_key(log.key)}",
        f"kraft.version {log.voters.kraft_version}",
        f"epoch {log.epoch}",
        f"records from {log.start_offset} to {log.end_offset}, the last of epoch {log.position[0]}",
        f"voters {_keys(log.voters.latest.keys)}",
    ]
    if log.snapshot_id is not None:
        words.append(f"snapshot at {log.snapshot_id.offset} of epoch {log.snapshot_id.epoch}")
    if not log.is_evidence:
        words.append("counts as no voter's: a copy, formatted anew, or unproven")
    return words


def _proof_line(proof: VotersProof, snapshot: OffsetAndEpoch | None) -> str:
    since = f"from offset {proof.offset}" if proof.offset is not None else "of the configuration"
    if proof.offset == -1:
        since = "of the checkpoint 0-0"
    elif snapshot is not None and proof.offset == snapshot.offset - 1:
        since = f"of the snapshot at {snapshot.offset}"
    missing = [key for key in proof.voters if key not in proof.present]
    proves = "proves nothing"
    if proof.committed_end_offset:
        proves = f"proves the records below {proof.committed_end_offset} committed"
    return (
        f"  {since}: voters {_keys(proof.voters)}; here {_keys(proof.present)} of {proof.majority} "
        f"that are a majority; missing {_keys(missing)}; {proves}\n"
    )


Lists = dict[str, list[NamedRecord]]
"""Folder -> records that only it has; the source: those that are not proven committed."""


def plan_object(plan: RecoveryPlan, folders: Sequence[StoppedFolder], lists: Lists) -> Any:
    """A plan as a JSON value."""
    return {
        "is_proven": plan.is_proven,
        "objections": plan.objections,
        "target": plan.target,
        "source": plan.source,
        "voter": _key_object(plan.voter.key),
        "kraft_version": plan.kraft_version,
        "epoch": plan.epoch,
        "end_offset": plan.end_offset,
        "committed_end_offset": plan.committed_end_offset,
        "wiped_before_return": [_key_object(key) for key in plan.wiped],
        "voter_sets": [
            {
                "offset": proof.offset,
                "voters": [_key_object(key) for key in proof.voters],
                "present": [_key_object(key) for key in proof.present],
                "majority": proof.majority,
                "committed_end_offset": proof.committed_end_offset,
            }
            for proof in plan.proofs
        ],
        "not_proven_committed": lists.get(plan.source, []),
        "left_behind": [
            {
                "folder": each.name,
                "begin_offset": each.begin_offset,
                "end_offset": each.end_offset,
                "records": lists.get(each.name, []),
            }
            for each in plan.left_behind
        ],
        "folders": [folder_object(folder) for folder in folders],
    }


def _listed(records: Sequence[NamedRecord]) -> list[str]:
    lines = [f"    {each.line()}\n" for each in records[:RECORDS_SHOWN]]
    more = len(records) - RECORDS_SHOWN
    return [*lines, f"    and {more} more: --json\n"] if more > 0 else lines


def plan_text(plan: RecoveryPlan, folders: Sequence[StoppedFolder], lists: Lists) -> str:
    """A plan for a person."""
    lines = ["Folders:\n", *[_folder_line(folder) for folder in folders]]
    (snapshot,) = [each.replica.snapshot_id for each in folders if each.replica.name == plan.source]
    lines.append(f"Voter sets in {plan.source}:\n")
    lines += [_proof_line(each, snapshot) for each in plan.proofs]
    lines.append(f"Proven committed: the records below {plan.committed_end_offset}.\n")
    lines.append(
        f"Plan: node {shown_key(plan.voter.key)} goes on as the only voter in {plan.target}, with "
        f"the log of {plan.source} below offset {plan.end_offset}, in epoch {plan.epoch}.\n"
    )
    kept = lists.get(plan.source, [])
    if kept:
        lines.append(
            f"Kept, though not proven committed: offsets {plan.committed_end_offset} to "
            f"{plan.end_offset}. Who sent them may have been told that they failed.\n"
        )
        lines += _listed(kept)
    for each in plan.left_behind:
        fate = "none was committed" if plan.is_proven else "they may have been committed"
        lines.append(
            f"Dropped from {each.name}: offsets {each.begin_offset} to {each.end_offset}; {fate}.\n"
        )
        lines += _listed(lists.get(each.name, []))
    if plan.is_proven:
        lines.append("No committed record is missing.\n")
    else:
        lines += [f"NOT PROVEN: {objection}\n" for objection in plan.objections]
        lines.append(
            "May be lost: what voters that are not here committed, in epoch "
            f"{plan.last_epoch} from offset {plan.end_offset} on, in later epochs from "
            f"{plan.committed_end_offset} on. Only their folders could name it.\n"
        )
    lines.append(f"Must be empty before they return: {_keys(plan.wiped)}\n")
    return "".join(lines)


def next_steps(plan: RecoveryPlan, cluster_id: str, cluster_id_before: str) -> str:
    """The steps of the person after `apply`, a line each."""
    voter = plan.voter
    lines = []
    if plan.kraft_version == 0:
        where = f"{plan.node_id}@{voter.endpoints[0].host}:{voter.endpoints[0].port}"
        lines.append(f"Set controller.quorum.voters={where} on every node.\n")
    if cluster_id != cluster_id_before:
        lines.append(
            f"Run `kraftline recover relabel --from {cluster_id_before} --cluster-id {cluster_id} "
            "DIR...` for every log directory of every broker, and the other ones of node "
            f"{plan.node_id}.\n"
        )
    lines.append(f"Start node {plan.node_id}, then the brokers.\n")
    wiped = _keys(plan.wiped)
    refused = "by its directory id it is no voter"
    if cluster_id != cluster_id_before:
        refused = "INCONSISTENT_CLUSTER_ID"
    elif plan.kraft_version == 0:
        refused = "nothing refuses it but the configuration"
    lines.append(f"Empty and format the folders of {wiped} before they start: {refused}.\n")
    return "".join(lines)
