"""All mutants that apply, of the published list and our own, and why the others do not."""

from typing import Final

from simulator.mutants.connections import CONNECTIONS
from simulator.mutants.controllers import CONTROLLERS, TIMERS
from simulator.mutants.disks import DISKS
from simulator.mutants.elections import ELECTIONS
from simulator.mutants.images import IMAGES
from simulator.mutants.lifecycle import LIFECYCLE
from simulator.mutants.lost_disks import LOST_DISKS
from simulator.mutants.pre_votes import PRE_VOTES
from simulator.mutants.publications import PUBLICATIONS
from simulator.mutants.reads import READS
from simulator.mutants.records import RECORDS
from simulator.mutants.registry import Mutant
from simulator.mutants.regressions import REGRESSIONS
from simulator.mutants.replication import REPLICATION
from simulator.mutants.transfers import TRANSFERS

_ALL: Final = (
    *ELECTIONS,
    *TRANSFERS,
    *REPLICATION,
    *DISKS,
    *CONTROLLERS,
    *TIMERS,
    *PRE_VOTES,
    *PUBLICATIONS,
    *LIFECYCLE,
    *LOST_DISKS,
    *CONNECTIONS,
    *REGRESSIONS,
    *IMAGES,
    *READS,
    *RECORDS,
)
MUTANTS: Final[tuple[Mutant, ...]] = tuple(sorted(_ALL, key=lambda mutant: mutant.number))
"""Mutants by number."""

NOT_APPLICABLE: Final[dict[int, tuple[str, str]]] = {
    18: (
        "two nodes with one id, the directory id ignored in votes",
        "voters of seeds are static (kraft.version 0); tests/raft/test_dynamic_voters.py kills it",
    ),
    19: (
        "a second change of voters while the first is not committed",
        "voters of seeds are static (kraft.version 0); tests/raft/test_reconfig.py kills it",
    ),
    20: (
        "a removed leader counts itself",
        "voters of seeds are static (kraft.version 0); tests/raft/test_dynamic_voters.py kills it",
    ),
}
"""Number -> the rule that it would break, and the reason why there is none."""

assert len({mutant.number for mutant in MUTANTS}) == len(MUTANTS)
assert not NOT_APPLICABLE.keys() & {mutant.number for mutant in MUTANTS}
