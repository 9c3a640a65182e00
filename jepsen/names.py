"""Names and limits for the command line of a run; apart, to be read before anything is loaded."""

from typing import Final

NODES_MAX: Final = 9
APPEND_LOG: Final = "append-log"
TXN: Final = "txn"
GROUP: Final = "group"
WORKLOADS: Final = ("topic-set", "config-register", APPEND_LOG, TXN, GROUP)
OF_RECORDS: Final = (APPEND_LOG, TXN, GROUP)
"""Workloads with partitions."""
QUORUM: Final = "quorum"
LINEARIZABLE: Final = "linearizable"
LOCAL: Final = "local"
UNCOMMITTED: Final = "uncommitted"
READS: Final = (QUORUM, LINEARIZABLE, LOCAL, UNCOMMITTED)
"""Kinds of reads, the usual one first."""
KILL: Final = "kill"
PAUSE: Final = "pause"
LEADER: Final = "leader"
OVERTAKE: Final = "overtake"
COORDINATOR: Final = "coordinator"
KINDS: Final = (KILL, PAUSE, LEADER, OVERTAKE, COORDINATOR)
"""Kinds of faults."""


def kinds_of(workload: str, *, is_unclean: bool) -> tuple[str, ...]:
    """Kinds of faults that a workload has, which are those of a run that names none.

    Args:
        workload: One of `WORKLOADS`.
        is_unclean: The run may lose records, by `OVERTAKE`.
    """
    if is_unclean:
        return (OVERTAKE,)
    if workload in (TXN, GROUP):
        return (KILL, PAUSE, LEADER, COORDINATOR)
    return (KILL, PAUSE, LEADER) if workload == APPEND_LOG else (KILL, PAUSE)
