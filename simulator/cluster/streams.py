"""Named random streams of one seed: a draw in one never shifts the draws of another."""

import random
from typing import Final

from simulator.campaign.draw import FSYNC_LIE, OWN_STREAM_FAULTS, VARIATIONS
from simulator.faults.kinds import GROUPS_KINDS, RECORDS_KINDS

NAMES: Final = (
    "draw",
    "rare",
    "nemesis",
    "apart",
    "network",
    "disk",
    "late",
    "workload",
    "clocks",
    "rest",
    "later",
    "later_plan",
    "later_sites",
    "turns",
    "clients",
    *OWN_STREAM_FAULTS,
    FSYNC_LIE,
    *VARIATIONS,
    "tolerable",
    "wire",
    "quick_disks",
    "linearizable_reads",
    "linearizable_reads/clients",
    "records",
    "record_clients",
    "record_kinds",
    "compaction",
    "transactions",
    "transaction_clients",
    "copying",
    *(f"chores/{kind}" for kind in (*RECORDS_KINDS, *GROUPS_KINDS)),
    "groups",
)
"""Names of the streams, beside those of the nodes."""


class Streams:
    """`random.Random` per name; a stream of a node is named `nodes/3/1` (node, incarnation).

    Seeded by text, which `random` hashes with SHA-512: the same in every process.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """The stream of a name, made at its first use."""
        assert name in NAMES or name.startswith("nodes/"), f"unknown {name=}"
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self._seed}/{name}")  # noqa: S311
        return found
