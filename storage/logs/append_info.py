"""The result of an append to a log."""

import msgspec

from storage.checkpoints.epoch_checkpoint import EpochEntry


class AppendInfo(msgspec.Struct, frozen=True):
    """The result of an append. `stopped` is the reason why later fetched batches were not taken."""

    base_offset: int
    end_offset: int
    last_epoch: int
    epochs: tuple[EpochEntry, ...] = ()
    stopped: str | None = None
