"""The sender of a batch to a leader, with what it knows of the transaction."""

from typing import Final

import msgspec

from storage.producers.producer_state import Origin
from storage.producers.verification import VerificationGuard


class AppendSource(msgspec.Struct, frozen=True):
    """The sender of a batch."""

    origin: Origin = Origin.CLIENT
    guard: VerificationGuard | None = None
    """Of a transactional batch whose partition the coordinator knows; None without verification."""
    transaction_version: int = 0
    """transaction.version of the client whose transaction a marker ends."""


CLIENT: Final = AppendSource()
COORDINATOR: Final = AppendSource(Origin.COORDINATOR)
