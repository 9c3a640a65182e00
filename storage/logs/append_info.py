"""Results of appends to a log."""

import msgspec

from storage.checkpoints.epoch_checkpoint import EpochEntry


class AppendInfo(msgspec.Struct, frozen=True):
    """The result of an append. `stopped` is the reason why later fetched batches were not taken."""

    base_offset: int
    end_offset: int
    last_epoch: int
    epochs: tuple[EpochEntry, ...] = ()
    stopped: str | None = None


class LeaderAppend(msgspec.Struct, frozen=True, gc=False):
    """The result of a leader's append; of a duplicate the offsets are those of the first append."""

    base_offset: int
    end_offset: int
    append_time_ms: int
    """-1 unless the topic has LogAppendTime; of a duplicate the time of its batch, as in Kafka."""
    log_start_offset: int
    is_duplicate: bool = False


class FollowerAppend(msgspec.Struct, frozen=True):
    """The result of a follower's append; `stopped` says why later batches were not taken."""

    end_offset: int
    stopped: str | None = None


class UnexpectedOffsetError(Exception):
    """Fetched batches begin below the end of the log."""

    def __init__(self, first_offset: int, last_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {first_offset} was fetched, the log ends at {end_offset}")
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.end_offset = end_offset
