"""All mutants of the data plane: runs with records find them, or scenarios of records."""

from typing import Final

from simulator.mutants.copies import COPIES
from simulator.mutants.groups import GROUPS
from simulator.mutants.record_cleaner import CLEANER
from simulator.mutants.record_followers import FOLLOWERS
from simulator.mutants.record_leaders import LEADERS
from simulator.mutants.record_logs import LOGS
from simulator.mutants.registry import Mutant
from simulator.mutants.transactions import TRANSACTIONAL

_ALL: Final = (*LEADERS, *FOLLOWERS, *LOGS, *CLEANER, *TRANSACTIONAL, *GROUPS, *COPIES)
RECORDS: Final[tuple[Mutant, ...]] = tuple(sorted(_ALL, key=lambda mutant: mutant.number))
"""Mutants by number."""
