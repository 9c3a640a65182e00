"""A real Kafka of one or more nodes for a test: `with Cluster(3) as kafka:` (docs/testing.md).

`cluster` (the one class a test needs), `plugin` (pytest's fixtures), `warm_process` (a process that
has a node imported and forks one in milliseconds), `warm_client` (starts and asks it), `requests`
(asks nodes), `faults`, `fault_rules` and `door` (what a test says of a fault, and its way to a
node), `settings`, `ports`, `folders`.
Not in it: mocks; the nodes are those of `kraftline server start`.
"""

from testing.cluster import Cluster, ClusterError
from testing.faults import Fault
from testing.settings import SettingsError
from testing.warm_client import WarmError, warm_up

__all__ = ["Cluster", "ClusterError", "Fault", "SettingsError", "WarmError", "warm_up"]
