"""The settings of a topic by which its logs are cleaned."""

import msgspec

NEVER_MS = (1 << 63) - 1


class CompactionRules(msgspec.Struct, frozen=True, kw_only=True):
    """With Kafka's defaults; times in ms."""

    is_compacted: bool = False
    """True if `cleanup.policy` has `compact`: only then the others count."""
    dirty_ratio_min: float = 0.5
    """`min.cleanable.dirty.ratio`: a log with a higher one is cleaned."""
    lag_ms_min: int = 0
    """`min.compaction.lag.ms`: time that a record stays as it was appended."""
    lag_ms_max: int = NEVER_MS
    """`max.compaction.lag.ms`: time after which a log is cleaned, however little is dirty."""
    delete_retention_ms: int = 86_400_000
    """`delete.retention.ms`"""

    def __post_init__(self) -> None:
        """Assert the range of each setting."""
        assert 0 <= self.dirty_ratio_min <= 1, f"{self.dirty_ratio_min=}"
        assert self.lag_ms_min >= 0, f"{self.lag_ms_min=}"
        assert self.lag_ms_max >= 1, f"{self.lag_ms_max=}"
        assert self.delete_retention_ms >= 0, f"{self.delete_retention_ms=}"
