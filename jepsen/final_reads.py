"""Check that a run ended by reading everything from every node: unread keys are not judged."""

from collections.abc import Hashable, Iterable
from typing import Any, Final

from jepsen.cycles.transactions import TXN
from jepsen.linearizability import Event
from jepsen.linearizability.history import INVOKE, OK, is_client
from jepsen.linearizability.model import is_pair
from jepsen.linearizability.values import frozen
from jepsen.report import UNKNOWN, VALID, Check
from jepsen.workloads import READS

NAME: Final = "final reads"


def check_final_reads(events: Iterable[Event], node_count: int, *, has_key_field: bool) -> Check:
    """Check that every key was read at every node, by reads begun after the last write and fault.

    Args:
        events: The history.
        node_count: The nodes are 1..node_count.
        has_key_field: Events name their key beside the value.
    """
    keys: dict[Hashable, Any] = {}
    late: set[int | str] = set()  # processes whose open read began after everything else
    found: set[tuple[Hashable, int]] = set()
    for event in events:
        name = _key(event, has_key_field=has_key_field)
        if is_client(event):
            names = _keys_of_transaction(event) if event.f == TXN else [name]
            keys |= {frozen(each): each for each in names}
        if not is_client(event) or event.f not in READS:
            late.clear()
            found.clear()
        elif event.type == INVOKE:
            late.add(event.process)
        elif event.process in late:
            late.remove(event.process)
            node_id = event.extra.get("node")
            if event.type == OK and isinstance(node_id, int):
                found.add((frozen(name), node_id))
    for node_id in range(1, node_count + 1):
        for key, name in keys.items():
            if (key, node_id) not in found:
                return Check(NAME, UNKNOWN, f"no final read of {name} at node {node_id}")
    return Check(NAME, VALID)


def _keys_of_transaction(event: Event) -> list[Any]:
    """Keys of its micro-operations; another value than theirs is for the checker."""
    rows = event.value if isinstance(event.value, list | tuple) else ()
    return [row[1] for row in rows if isinstance(row, list | tuple) and len(row) > 1]


def _key(event: Event, *, has_key_field: bool) -> Any:
    """Key of an operation; None if it names none."""
    if has_key_field:
        return event.extra.get("key")
    return event.value[0] if is_pair(event.value) else None
