"""Fetch of the metadata partition as plain values: one shape on the wire and in the core.

`wire/messages/metadata_fetch.py` reads and writes them, `raft/messages.py` names them among the
messages of the quorum: a frame is converted into a value once (docs/decisions/0008).
"""

from typing import Final, final

import msgspec

from wire.types import DirectoryId, Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch

HIGH_WATERMARK_UNSUPPORTED: Final = 2**63 - 1
"""The high watermark of a request that cannot carry one (below version 18)."""


@final
class FetchRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Fetch 12-18 of the metadata partition by a voter, observer or anonymous reader."""

    cluster_id: str | None = None
    replica_id: NodeId | None = None
    replica_directory_id: DirectoryId | None = None
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch = LeaderEpoch(-1)
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = HIGH_WATERMARK_UNSUPPORTED
    """The replica's high watermark: -1 unknown, HIGH_WATERMARK_UNSUPPORTED below v18."""


@final
class FetchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response to Fetch. `records` are whole stored batches (bytes), maybe cut at the end.

    With `top_error_code` it has no partition and kio encodes it. `leader_endpoint` has an empty
    listener name: the response does not carry it.
    """

    error_code: int = 0
    top_error_code: int = 0
    leader_id: NodeId | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    leader_endpoint: Endpoint | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: bytes = b""
