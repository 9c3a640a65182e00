"""One face for the three Python clients as producers and consumers without a group."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

SECONDS = 20.0
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
OF_CLIENT = {"kafka-python": (None, "gzip", "zstd")}
"""Codecs of a client that has not all of them: kafka-python's others need more packages."""


class Record(NamedTuple):
    """A record as every client can say it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    offset: int | None = None


class RecordClient(Protocol):
    """Producing and consuming, each call with a connection of its own."""

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        acks: int | str = "all",
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[int]:
        """Return the offsets; of acks=0 those that the client makes up."""
        ...

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Record]:
        """Return the first records from an offset on."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Return the first offset at or after a time."""
        ...

    def ends(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """Return the first offset and that of the next record."""
        ...


class ConfluentRecords:
    """librdkafka by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2}

    def produce(self, topic, records, *, partition=0, acks="all", codec=None, idempotent=False):
        settings = {
            **self._settings,
            "acks": acks,
            "compression.type": codec or "none",
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "message.timeout.ms": int(SECONDS * 1000),
        }
        producer = Producer(settings)
        offsets: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise KafkaException(error)
            offsets.append(message.offset())

        for record in records:
            more = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                headers=list(record.headers),
                on_delivery=delivered,
                **more,
            )
        assert producer.flush(SECONDS) == 0, "records are left"
        return offsets

    def _consumer(self) -> Any:
        return Consumer(
            {**self._settings, "group.id": "nobody", "enable.auto.commit": False,
             "auto.offset.reset": "error"}
        )  # fmt: skip

    def consume(self, topic, count, *, partition=0, offset=0):
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[Record] = []
            while len(found) < count:
                messages = consumer.consume(count - len(found), SECONDS)
                assert messages, f"{len(found)} of {count} records within {SECONDS} s"
                for message in messages:
                    assert message.error() is None, message.error()
                    found.append(
                        Record(message.value(), message.key(), tuple(message.headers() or ()),
                               message.timestamp()[1], message.offset())
                    )  # fmt: skip
            return found
        finally:
            consumer.close()

    def offset_at(self, topic, timestamp_ms, *, partition=0):
        consumer = self._consumer()
        try:
            asked = [TopicPartition(topic, partition, timestamp_ms)]
            (found,) = consumer.offsets_for_times(asked, timeout=SECONDS)
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()

    def ends(self, topic, *, partition=0):
        consumer = self._consumer()
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)
        finally:
            consumer.close()


class PythonRecords:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic, records, *, partition=0, acks="all", codec=None, idempotent=False):
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=acks,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(topic, record.value, record.key, list(record.headers), partition,
                              record.timestamp_ms)
                for record in records
            ]  # fmt: skip
            return [each.get(SECONDS).offset for each in sent]
        finally:
            producer.close(5)

    def _consumer(self) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="none"
        )

    def consume(self, topic, count, *, partition=0, offset=0):
        at = PythonTopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            consumer.assign([at])
            consumer.seek(at, offset)
            found: list[Record] = []
            for _ in range(int(SECONDS)):
                rows = consumer.poll(1000, count - len(found)).get(at, [])
                found += [
                    Record(row.value, row.key, tuple(row.headers), row.timestamp, row.offset)
                    for row in rows
                ]
                if len(found) == count:
                    return found
            raise AssertionError(f"{len(found)} of {count} records within {SECONDS} s")
        finally:
            consumer.close()

    def offset_at(self, topic, timestamp_ms, *, partition=0):
        at = PythonTopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            found = consumer.offsets_for_times({at: timestamp_ms})[at]
            return None if found is None else found.offset
        finally:
            consumer.close()

    def ends(self, topic, *, partition=0):
        at = PythonTopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            return consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
        finally:
            consumer.close()


class AioRecords:
    """aiokafka; every call runs in an event loop of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic, records, *, partition=0, acks="all", codec=None, idempotent=False):
        return asyncio.run(self._produce(topic, records, partition, acks, codec, idempotent))

    async def _produce(
        self,
        topic: str,
        records: Iterable[Record],
        partition: int,
        acks: int | str,
        codec: str | None,
        idempotent: bool,
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=acks,
            compression_type=codec,
            enable_idempotence=idempotent,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, record.value, record.key, partition,
                                    record.timestamp_ms, list(record.headers))
                for record in records
            ]  # fmt: skip
            answers = await asyncio.wait_for(asyncio.gather(*sent), SECONDS)
            return [-1 if answer is None else answer.offset for answer in answers]
        finally:
            await producer.stop()

    def consume(self, topic, count, *, partition=0, offset=0):
        async def consumed(consumer: Any, at: Any) -> list[Record]:
            consumer.seek(at, offset)
            rows = [await asyncio.wait_for(consumer.getone(at), SECONDS) for _ in range(count)]
            return [Record(r.value, r.key, tuple(r.headers), r.timestamp, r.offset) for r in rows]

        return asyncio.run(self._with_consumer(topic, partition, consumed))

    def offset_at(self, topic, timestamp_ms, *, partition=0):
        async def asked(consumer: Any, at: Any) -> int | None:
            found = (await consumer.offsets_for_times({at: timestamp_ms}))[at]
            return None if found is None else found.offset

        return asyncio.run(self._with_consumer(topic, partition, asked))

    def ends(self, topic, *, partition=0):
        async def asked(consumer: Any, at: Any) -> tuple[int, int]:
            first = await consumer.beginning_offsets([at])
            return first[at], (await consumer.end_offsets([at]))[at]

        return asyncio.run(self._with_consumer(topic, partition, asked))

    async def _with_consumer(self, topic: str, partition: int, asked: Any) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="none"
        )
        at = AioTopicPartition(topic, partition)
        await consumer.start()
        try:
            consumer.assign([at])
            return await asked(consumer, at)
        finally:
            await consumer.stop()


RECORD_CLIENTS = {
    "confluent": ConfluentRecords,
    "kafka-python": PythonRecords,
    "aiokafka": AioRecords,
}
