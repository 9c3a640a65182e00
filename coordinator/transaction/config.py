"""Settings of transactions; the names of fields are Kafka's keys, the defaults are Kafka's."""

import msgspec


class TransactionsConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of the coordinator, and of the leaders that ask it."""

    timeout_ms_max: int = 900_000
    """`transaction.max.timeout.ms`"""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`"""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    retry_backoff_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`"""
    retry_ms_max: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`"""
    load_bytes_max: int = 5 * 1024 * 1024
    """`transaction.state.log.load.buffer.size`"""
    request_timeout_ms: int = 30_000
    """`request.timeout.ms`, of requests between brokers about transactions."""
