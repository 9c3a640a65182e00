"""Name of the code that a run is made of: results of other code do not count."""

import subprocess
import zlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UNDER_TEST: Final = (
    "broker",
    "broker_publisher",
    "coordinator",
    "kernel",
    "metadata",
    "network",
    "quorum_controller",
    "raft",
    "replication",
    "storage",
    "wire",
)
"""Packages whose code the simulator runs and its mutants break."""
SIMULATED: Final = (*UNDER_TEST, "jepsen", "simulator")
"""Packages that a run is made of, the checker of histories included."""


def commit_name() -> str:
    """Name the commit of this tree; with a hash of the code where that differs, or without git.

    `0123456789`, `0123456789-dirty-89abcdef` (or only documents differ: `-dirty`), `unknown-...`.
    """
    name = _git("describe", "--always", "--dirty", "--abbrev=10") or "unknown"
    if name != "unknown" and not _git("status", "--porcelain", "--", *SIMULATED):
        return name
    checksum = 0
    for package in SIMULATED:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name_of_file = str(path.relative_to(ROOT)).encode()
                checksum = zlib.crc32(path.read_bytes(), zlib.crc32(name_of_file, checksum))
    return f"{name if '-' in name or name == 'unknown' else f'{name}-dirty'}-{checksum:08x}"


def _git(*words: str) -> str:
    if not (ROOT / ".git").exists():
        return ""  # installed: the repository around it, if there is one, is somebody else's
    command = ["git", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return done.stdout.strip()
