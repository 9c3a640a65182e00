"""Parameters of a Fetch for all its partitions."""

import msgspec

from replication.leader.replica_selector import Reader
from storage.logs.unified_log import FetchIsolation
from wire.types import BrokerEpoch, NodeId


class FetchParams(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Parameters of a Fetch for all its partitions."""

    replica_id: NodeId | None
    """The follower; None for consumers."""
    replica_epoch: BrokerEpoch | None = None
    """Registration of the follower's broker; None if it does not say."""
    max_wait_ms: int
    min_bytes: int
    isolation: FetchIsolation
    is_leader_only: bool
    """False for consumers that may read from followers."""
    reader: Reader | None = None
    """The consumer, if another replica may be preferred for it."""
