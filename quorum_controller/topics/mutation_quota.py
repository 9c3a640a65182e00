"""The controller mutation quota (KIP-599): partitions per second that a client may change.

There is a token bucket per user, client id or both, as in the entity of the quota. A request is
accepted while its bucket is not negative and may make it negative: one large request passes, the
next ones wait. Buckets are soft state: a new controller starts with full ones.
Source: apache/kafka: server/.../quota/{ControllerMutationQuotaManager,ClientQuotaManager}.java,
clients/.../metrics/stats/TokenBucket.java.
"""

from math import inf
from typing import Final

import msgspec

from metadata.client_quotas import client_quota
from metadata.image import Image
from wire.errors import ApiError, ErrorCode

RATE: Final = "controller_mutation_rate"
BUCKETS_MAX: Final = 10_000
"""Limit of buckets; beyond it the oldest is dropped, and its client gets a full one again."""
EXCEEDED: Final = ApiError(
    ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
)


class _Bucket(msgspec.Struct):
    """Token bucket of one quota entity."""

    tokens: float
    updated_ms: int


class MutationQuotas:
    """All buckets of one controller.

    Args:
        burst_seconds: capacity of a bucket in seconds of its rate.
    """

    __slots__ = ("_buckets", "_burst_seconds", "wait_ms")

    def __init__(self, burst_seconds: int) -> None:
        self._burst_seconds = burst_seconds
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self.wait_ms = 0
        """Ms that the caller of the request being handled must wait; reset to 0 before each."""

    def charge(
        self, image: Image, user: str, client_id: str, partition_count: int, now_ms: int
    ) -> int:
        """Take tokens for partitions that are created or deleted.

        Args:
            image: with the quotas.
            user: name of the principal.
            client_id: of the request, empty when it has none.
            partition_count: the cost.
            now_ms: monotonic.

        Returns:
            0 if the change is allowed, else ms until the bucket is not negative; then no tokens
            were taken.
        """
        found = client_quota(image.client_quotas, RATE, user, client_id)
        if found is None:
            return 0
        key, rate = found
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[key] = _Bucket(inf, now_ms)
        seconds = (now_ms - bucket.updated_ms) / 1000
        bucket.tokens = min(rate * self._burst_seconds, bucket.tokens + rate * seconds)
        bucket.updated_ms = now_ms
        if bucket.tokens < 0:
            self.wait_ms = max(1, round(-bucket.tokens / rate * 1000))
            return self.wait_ms
        bucket.tokens -= partition_count
        return 0
