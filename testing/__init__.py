"""A real Kafka of one or more nodes for a test: `with Cluster(3) as kafka:` (docs/testing.md).

`cluster` (the one class a test needs), `plugin` (pytest's fixtures), `warm_process` (a process that
has a node imported and forks one in milliseconds), `warm_client` (starts and asks it), `requests`
(asks nodes), `errors`, `faults`, `fault_rules` and `door` (what a test says of a fault, and its
way to a node), `shared` (the cluster of all workers of pytest-xdist), `settings`, `ports`,
`folders`.
Not in it: mocks; the nodes are those of `kraftline server start`.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from testing.cluster import Cluster
    from testing.errors import ClusterError, WarmError
    from testing.faults import Fault
    from testing.settings import SettingsError
    from testing.warm_client import warm_up

_HOMES: Final = {
    "Cluster": "testing.cluster",
    "ClusterError": "testing.errors",
    "Fault": "testing.faults",
    "SettingsError": "testing.settings",
    "WarmError": "testing.errors",
    "warm_up": "testing.warm_client",
}
"""Imported when they are asked for: pytest imports this package in every run, without Kafka too."""


def __getattr__(name: str) -> object:
    """Import one of the names of this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_HOMES[name]), name)
    return found


__all__ = ["Cluster", "ClusterError", "Fault", "SettingsError", "WarmError", "warm_up"]
