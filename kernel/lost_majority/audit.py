"""The audit file of a recovery: what was found, decided and lost, and what its steps still need.

`recovery-EPOCH.json` beside `meta.properties`; Kafka ignores it. It is written before the first
step and again after the last, so a recovery that was interrupted is finished from it.
"""

from typing import Final, Literal

import msgspec

from raft.membership.lost_majority import RecoveryPlan
from storage.errors import CorruptFileError
from storage.vfs import Vfs, join, write_file_atomically

AUDIT_PREFIX: Final = "recovery-"
AUDIT_SUFFIX: Final = ".json"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file."""

    version: int = 1
    state: Literal["begun", "done"]
    wall_ms: int
    """Time of its beginning."""
    plan: RecoveryPlan
    accepted_data_loss: bool
    cluster_id: str
    """Of the quorum from now on."""
    cluster_id_before: str
    folders: msgspec.Raw
    """Of the plan, a JSON array of objects as `recover plan --json` prints them; not read again."""
    quorum_state_before: str | None
    """Content of the file, which the recovery replaces."""


def audit_name(audit: Audit) -> str:
    """The name of the file."""
    return f"{AUDIT_PREFIX}{audit.plan.epoch:010d}{AUDIT_SUFFIX}"


def write_audit(vfs: Vfs, audit: Audit) -> str:
    """Write the file into the recovered folder, durably; return its path."""
    path = join(audit.plan.target, audit_name(audit))
    write_file_atomically(vfs, path, msgspec.json.format(msgspec.json.encode(audit)) + b"\n")
    return path


def unfinished_audit(vfs: Vfs, log_dir: str) -> Audit | None:
    """Return the audit of a recovery of this folder that was interrupted; None without one.

    Raises:
        CorruptFileError: an audit file that cannot be read.
    """
    for name in reversed(vfs.list(log_dir)):
        if not (name.startswith(AUDIT_PREFIX) and name.endswith(AUDIT_SUFFIX)):
            continue
        path = join(log_dir, name)
        try:
            audit = msgspec.json.decode(vfs.read(path), type=Audit)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(path, f"not an audit of a recovery: {error}") from error
        if audit.state == "begun":
            return audit
    return None
