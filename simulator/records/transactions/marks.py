"""Coverage marks of runs with transactions."""

from typing import Final

TRANSACTION_MARKS: Final = (
    "transaction_committed",
    "transaction_aborted",
    "end_refused",
    "write_refused",
    "committed_unknowingly",
    "refused_unknowingly",
    "process_crashed",
    "process_lives_on",
    "process_fenced",
    "coordinator_moved",
    "transactional_moved",
    "older_client",
    "newer_client",
    "transactions_excused",
)
"""`committed_unknowingly`: the client has no answer to its commit, which came about.
`process_lives_on`: a process was replaced while it ran (a zombie)."""
