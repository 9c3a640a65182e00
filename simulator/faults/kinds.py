"""Kinds of faults, each with the draws that added it and a colour. Needs no code of the cluster."""

from typing import Final

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """One kind; its function is in `table.FAULTS`, which says why the tables are two."""

    since: int | None
    """Version of the draws that added it (campaign/draw.py); None: on request, never drawn."""
    colour: str
    """Colour on the page of a run."""


KINDS: Final[dict[str, Kind]] = {
    "kill": Kind(since=1, colour="#d1382c"),
    "power_failure": Kind(since=1, colour="#9c1c13"),
    "pause": Kind(since=1, colour="#caa011"),
    "partition": Kind(since=1, colour="#7a4fc0"),
    "one_way": Kind(since=1, colour="#a487d6"),
    "clog": Kind(since=1, colour="#4b7fb5"),
    "reset": Kind(since=1, colour="#5aa6a6"),
    "crash_at_operation": Kind(since=1, colour="#e0672e"),
    "all_down": Kind(since=1, colour="#6d0f09"),
    "terminate": Kind(since=1, colour="#c96a5f"),
    "slow_disk": Kind(since=1, colour="#8a7a5c"),
    "sync_error": Kind(since=1, colour="#b5488a"),
    "disk_full": Kind(since=1, colour="#7d5a3c"),
    "clock_jump": Kind(since=1, colour="#6b8e23"),
    "old_quorum_state": Kind(since=1, colour="#a8326e"),
    "bit_rot": Kind(since=1, colour="#c2185b"),
    "lost_write": Kind(since=1, colour="#ad4f86"),
    "misdirected_write": Kind(since=1, colour="#8e3a6b"),
    "depose_leader": Kind(since=1, colour="#4d2d94"),
    "empty_disk": Kind(since=2, colour="#5d4037"),
    "out_of_memory": Kind(since=2, colour="#b0583a"),
    "read_error": Kind(since=2, colour="#a0437f"),
    "swizzle": Kind(since=2, colour="#8f6fc9"),
    "lost_messages": Kind(since=4, colour="#3f7f93"),
    "full_link": Kind(since=4, colour="#2c5f8a"),
    "write_error": Kind(since=4, colour="#c05a9c"),
    "restart_storm": Kind(since=4, colour="#e2553d"),
    "crash_at_start": Kind(since=4, colour="#b8431f"),
    "client_links": Kind(since=5, colour="#2e8b8b"),
    "uneven_links": Kind(since=5, colour="#6f86c9"),
    "start_read_error": Kind(since=5, colour="#c2549b"),
    "kill_at_operation": Kind(since=5, colour="#ef5b3c"),
    "lasting_disk_fault": Kind(since=5, colour="#94673f"),
    "wiped_voter": Kind(since=8, colour="#7b5e57"),
    "transfer": Kind(since=9, colour="#2f6db3"),
    "stop_leader": Kind(since=10, colour="#d9b534"),
    "fsync_lie": Kind(since=None, colour="#6a1b4d"),
}
"""Kinds in the order of the draws that choose them, which never changes: seeds stay the same."""

RECORDS_KINDS: Final[dict[str, str]] = {
    "reassign": "#2f7f5f",
    "recreate_topic": "#256b4e",
    "alter_topic": "#4f9a7a",
    "delete_records": "#6fae92",
    "elect_preferred": "#8fc4ac",
    "directory_failure": "#8a5a2c",
    "move_replica": "#b08a3e",
}
"""Kinds of runs with records alone, each with its colour (simulator/records/chores.py)."""

GROUPS_KINDS: Final[dict[str, str]] = {
    "member_kill": "#5f7d2f",
    "member_pause": "#7d9a45",
    "member_leave": "#9ab364",
    "member_replace": "#b5c98a",
    "coordinator_move": "#46611f",
}
"""Kinds of runs with groups alone, each with its colour (simulator/groups/workload.py)."""

DAMAGES: Final[tuple[str, ...]] = ("bit_rot", "lost_write", "misdirected_write")
"""Kinds that change what a disk holds."""


def kinds_since(draws: int) -> tuple[str, ...]:
    """Kinds that one version of the draws added."""
    return tuple(name for name, kind in KINDS.items() if kind.since == draws)
