"""The table of roles in the package's docstring says what `transitions.ALLOWED` allows."""

import re

import raft
from raft.transitions import ALLOWED


def test_the_table_of_roles_is_the_table_of_transitions():
    assert raft.__doc__ is not None
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in raft.__doc__.splitlines()
        if line.startswith("|")
    ]
    shown = {
        name: {word for row in rows for word in re.findall(r"\w+", row[column])}
        for column, name in enumerate(head)
        if column > 0
    }
    assert shown == {
        role.__name__: {after.__name__ for after in allowed} for role, allowed in ALLOWED.items()
    }
