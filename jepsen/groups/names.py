"""Groups of a run, and what members tell: one object a line, and one event of the history each.

| event | value beside `at` |
|---|---|
| `assigned`, `revoked`, `lost` | `partitions`; `generation` (member epoch of the new protocol) |
| `fetched` | `offsets` by partition that the coordinator has, asked from `began` on; null: none |
| `read` | `records` by partition: `[offset value]` |
| `committing` | `offsets` that are about to be committed |
| `committed`, `refused` | the same, asked from `began` on; `error` |
| `started`, `left`, `killed`, `paused`, `resumed` | what the run did to the process |
| `caught up`, `behind` | of a group at the end: `offsets` committed and `ends` of the partitions |

`at` and `began` are times of the history's clock.
"""

from typing import Final

RANGE: Final = "range"
COOPERATIVE: Final = "cooperative"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = {"readers-range": RANGE, "readers-sticky": COOPERATIVE, "readers-848": CONSUMER}
"""Protocol of every group."""
SESSION_MS: Final = 6_000
"""Shortest session of the classic protocol that a broker takes by default."""
HEARTBEAT_MS: Final = 500
OFFSETS_TOPIC: Final = "__consumer_offsets"
NODE_SETTINGS: Final = (
    f"group.consumer.min.session.timeout.ms={SESSION_MS}",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    f"group.consumer.min.heartbeat.interval.ms={HEARTBEAT_MS}",
    f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}",
    "group.initial.rebalance.delay.ms=500",
)

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"
FETCHED: Final = "fetched"
READ: Final = "read"
COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
REFUSED: Final = "refused"
STARTED: Final = "started"
LEFT: Final = "left"
KILLED: Final = "killed"
PAUSED: Final = "paused"
RESUMED: Final = "resumed"
CAUGHT_UP: Final = "caught up"
BEHIND: Final = "behind"
