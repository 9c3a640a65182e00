"""Audit of `quorum-state`: readable, and not behind the log beside it."""

import json
from pathlib import Path
from typing import Any, Final

from pipeline.core.audit.findings import ERROR, INFO, WARN, Finding, in_partition
from pipeline.core.reading.discovery import PartitionFiles
from storage.errors import CorruptFileError
from storage.log_dir.quorum_state_file import QUORUM_STATE_NAME, ElectionState, decode_quorum_state

_FIELDS: Final = frozenset(
    ["clusterId", "leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "appliedOffset",
     "currentVoters", "data_version"]
)  # fmt: skip


def check_quorum_state(
    copy: PartitionFiles, voters: tuple[int, ...] | None, epoch: int | None
) -> list[Finding]:
    """Compare `quorum-state` with the log.

    Args:
        copy: a replica of the metadata log.
        voters: voters of the last leader change in the log; None without one.
        epoch: epoch of the last batch; None for an empty log.
    """
    path = f"{copy.directory}/{QUORUM_STATE_NAME}"

    def found(severity: str, check: str, **more: Any) -> Finding:
        return in_partition(copy, severity, check, path, **more)

    try:
        content = Path(path).read_bytes()
    except OSError:
        return [found(WARN, "quorum_state_missing", detail="the vote of this node is forgotten")]
    try:
        state: ElectionState = decode_quorum_state(content, path)
        fields: dict[str, Any] = json.loads(content)
    except CorruptFileError as error:
        return [found(ERROR, "quorum_state_garbled", detail=error.reason)]
    except (ValueError, RecursionError) as error:  # where the two readers differ
        return [found(ERROR, "quorum_state_garbled", detail=str(error))]
    findings = [
        found(INFO, "quorum_state_unknown_field", detail=f"field {name!r}")
        for name in sorted(set(fields) - _FIELDS)
    ]
    if epoch is not None and int(state.epoch) < epoch:
        findings.append(
            found(ERROR, "quorum_state_behind_log", epoch=int(state.epoch),
                  expected=f"at least {epoch}", actual=str(int(state.epoch)),
                  detail="the node may vote a second time in an epoch that it has seen")
        )  # fmt: skip
    if fields.get("clusterId"):
        findings.append(found(WARN, "quorum_state_cluster", actual=str(fields["clusterId"]),
                              detail="no node fills this field in"))  # fmt: skip
    try:
        stored = tuple(sorted(int(one["voterId"]) for one in fields.get("currentVoters") or ()))
    except (ValueError, KeyError, TypeError) as error:
        detail = f"field 'currentVoters': {error!r}"
        return [*findings, found(ERROR, "quorum_state_garbled", detail=detail)]
    if stored and voters and stored != voters:
        findings.append(found(WARN, "quorum_state_voters", expected=str(list(voters)),
                              actual=str(list(stored)),
                              detail="the last leader change names others"))  # fmt: skip
    known = stored or voters
    if known and state.leader_id is not None and int(state.leader_id) not in known:
        findings.append(found(ERROR, "quorum_state_leader", actual=str(int(state.leader_id)),
                              expected=f"one of {list(known)}",
                              detail="the leader is no voter"))  # fmt: skip
    return findings
