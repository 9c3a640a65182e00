"""Voters that lost their disk, and what the disks of voters say about their memory."""

from typing import Final

from simulator.campaign.probes import Probes
from simulator.checks.raft.log_mirror import QUORUM_STATE, segment_paths
from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import MemoryVfs

UNPROVEN: Final = "/data/.unproven"


def is_unproven(vfs: MemoryVfs) -> bool:
    """True if the voter on this disk is unproven, or will be at its first start."""
    return vfs.exists(UNPROVEN) or not vfs.exists(QUORUM_STATE)


def remembers(vfs: MemoryVfs) -> bool:
    """True if the voter on this disk is proven and has records that no power failure takes."""
    return not is_unproven(vfs) and any(vfs.durable_content(path) for path in segment_paths(vfs))


class WipedVoters:
    """The voters that lost a disk and are not proven since."""

    def __init__(self, machines: dict[int, Machine], probes: Probes) -> None:
        self._machines = machines
        self._probes = probes
        self._wiped: set[int] = set()

    def add(self, number: int) -> None:
        """Note that a voter lost its disk."""
        self._wiped.add(number)

    def now(self) -> set[int]:
        """Those that may have acknowledged any record on the disk that they lost.

        It counts as a copy: until such a voter is proven, it elects nobody without the record.
        """
        for number in sorted(self._wiped):
            if not is_unproven(self._machines[number].vfs):
                self._wiped.discard(number)
                self._probes.hit("wiped_voter_proven")
        return self._wiped
