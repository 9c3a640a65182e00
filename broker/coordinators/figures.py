"""Figures of the coordinators of a broker, as values for metrics.

apache/kafka: coordinator-common/.../runtime/CoordinatorRuntimeMetricsImpl.java, 4.3
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from coordinator.group.counts import GroupCounts, GroupNumbers
from coordinator.runtime.shard import ShardState
from coordinator.transaction.states import TransactionState

LOOK_UNITS: Final = 1_000
"""Groups, members and transactions that one look counts, about a millisecond: what is more keeps
the numbers of an earlier look."""
LOADS_MS: Final = 60_000
"""Time for which a load counts; Kafka's two samples of 30 s hold 30 to 60 s."""
_LOADS_MAX: Final = 1024


class LoadTimes:
    """Times that it took to load partitions."""

    __slots__ = ("_loads",)

    def __init__(self) -> None:
        self._loads: deque[tuple[int, int]] = deque(maxlen=_LOADS_MAX)

    def add(self, took_ms: int, now_ms: int) -> None:
        """Add a load that ends now."""
        self._loads.append((now_ms, took_ms))

    def average_and_max_ms(self, now_ms: int) -> tuple[float, float]:
        """The mean and the largest time of the loads of the last minute; NaN without any."""
        newest = [took_ms for at_ms, took_ms in self._loads if now_ms - at_ms < LOADS_MS]
        if not newest:
            return math.nan, math.nan
        return sum(newest) / len(newest), float(max(newest))


class ShardFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a coordinator's topic that this broker leads."""

    states: Mapping[ShardState, int]
    load_ms_average: float
    """Of the last minute; NaN without a load."""
    load_ms_max: float


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator of groups."""

    shards: ShardFigures
    counts: GroupCounts
    """A copy."""
    numbers: GroupNumbers


class TransactionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator of transactions."""

    shards: ShardFigures
    ids: int
    """Transactional ids."""
    open: Mapping[TransactionState, int]
    """Those with a transaction that is not complete, by state."""
    unknown_destinations: int
    """Transactions whose markers wait for a partition to have a leader."""
    append_retries: int
    """Transactions whose markers are written, and whose completion is to be written again."""
