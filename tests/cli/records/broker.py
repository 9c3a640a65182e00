"""A broker in memory for the records commands: partitions of batches, answered through the codecs.

Every body goes through the bytes of the newest version and back, as on a connection.
"""

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from cli.connect import ClusterError, UnreachableError
from cli.records.clients.clock import Clock
from wire.api_table import SCHEMAS
from wire.batches.batch import BatchHeader, RecordView, encode_records, iterate_batches
from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    newest,
    split_request,
)
from wire.messages.conversion import default_entity
from wire.types import LeaderEpoch, Offset

PRODUCE, FETCH, LIST_OFFSETS, METADATA, DELETE_RECORDS, INIT_PRODUCER_ID = 0, 1, 2, 3, 21, 22
DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER = 35, 60
NODE = 1


class Log(msgspec.Struct):
    """A partition."""

    batches: list[bytes] = msgspec.field(default_factory=list)
    start: int = 0
    stable: int | None = None
    """Last stable offset; None: the end."""
    aborted: tuple[tuple[int, int, int], ...] = ()
    """Producer, first offset and that of the marker of transactions that were aborted."""
    leader: int = NODE
    old_messages: bytes = b""
    """Message sets that a fetch gets instead of batches."""
    sequences: dict[tuple[int, int], int] = msgspec.field(default_factory=dict)
    """The next by producer id and epoch."""

    @property
    def end(self) -> int:
        return int(first_batch(self.batches[-1]).header.end_offset) if self.batches else 0

    def append(self, *values: bytes | tuple[Any, ...], **fields: Any) -> None:
        """Add a batch of values, or of keys, values, headers; `fields` are those of the header."""
        records = [
            RecordView(
                Offset(self.end + delta), fields.get("max_timestamp_ms", 1000 + self.end + delta),
                *(value if isinstance(value, tuple) else (None, value)),
            )
            for delta, value in enumerate(values)
        ]  # fmt: skip
        header = BatchHeader(
            base_offset=Offset(self.end),
            last_offset_delta=len(records) - 1, records_count=len(records),
            base_timestamp_ms=records[0].timestamp_ms,
            **{
                "max_timestamp_ms": records[-1].timestamp_ms, "leader_epoch": LeaderEpoch(0),
                **fields,
            },
        )  # fmt: skip
        self.batches.append(encode_records(header, records))

    def sequence_error(self, header: Any) -> int:
        """The error of a broker that knows the last batch of each producer; appends count."""
        if header.producer_id < 0:
            return 0
        key = header.producer_id, header.producer_epoch
        expected = self.sequences.get(key, 0)
        if header.base_sequence < expected:
            return 46
        if header.base_sequence > expected:
            return 45
        self.sequences[key] = header.base_sequence + header.records_count
        return 0

    def records(self) -> list[RecordView]:
        return [record for batch in self.batches for record in first_batch(batch).records()]


def first_batch(content: bytes) -> Any:
    return next(iterate_batches(content))


class Topic(msgspec.Struct):
    name: str
    logs: list[Log]
    is_internal: bool = False
    is_compacted: bool = False

    @property
    def id(self) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_DNS, self.name)


class Time(Clock):
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def wall_ms(self) -> int:
        return 1_795_000_000_000 + self.at_ms

    def sleep_ms(self, ms: int) -> None:
        assert ms >= 0
        self.at_ms += ms


class Begun:
    """A request that is answered after the `held_ms` of its API."""

    def __init__(self, broker: "Broker", api_key: int, body: Any) -> None:
        self.is_closed = False
        self._broker, self._api_key, self._body = broker, api_key, body
        self._due_ms = broker.clock.at_ms + broker.held_ms.get(api_key, 0)

    def poll(self, timeout_ms: int) -> Any:
        assert not self.is_closed
        clock = self._broker.clock
        left_ms = max(0, self._due_ms - clock.at_ms)
        clock.sleep_ms(min(timeout_ms, left_ms))
        return None if left_ms > timeout_ms else self._broker.call(self._api_key, self._body)

    def close(self) -> None:
        self.is_closed = True


class Broker:
    """The API that commands call; keeps what it was asked."""

    def __init__(self, **partitions: int | list[Log]) -> None:
        self.topics = {
            name: Topic(name, [Log() for _ in range(logs)] if isinstance(logs, int) else logs)
            for name, logs in partitions.items()
        }
        self.asked: list[tuple[int, Any]] = []
        self.refused_count = 0
        self.refused: list[int] = []
        """APIs of which the next calls find no connection."""
        self.refused_later: list[int] = []
        """The same, from the first ListOffsets on."""
        self.errors: list[tuple[int, int]] = []
        """(API, error code) that the next requests of the API are answered with."""
        self.sizes: dict[tuple[str, int], int] = {}
        """Instead of the bytes of the batches."""
        self.clock = Time()
        self.held_ms: dict[int, int] = {}
        self.begun: list[Begun] = []
        self.batches_max: int | None = None
        """Of a partition in one answer to Fetch."""
        self.lost_answers = 0
        """Batches that are appended but not answered."""
        self.answers = dict(ANSWERS)
        self.versions = {key: SCHEMAS[key].newest_version for key in self.answers} | MAXIMA
        self._next_producer_id = 7

    @contextlib.contextmanager
    def opened(self, _options: Any) -> Iterator["Broker"]:
        yield self

    def supports(self, api_key: int) -> bool:
        return api_key in self.answers

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        assert node in (None, NODE)
        if api_key in self.refused:
            self.refused.remove(api_key)
            raise UnreachableError("h:1: Connection refused")
        version = self.versions.get(api_key, SCHEMAS[api_key].newest_version)
        frame = encode_request(api_key, version, 1, "test", body)
        _, position = split_request(frame)
        request = decode_request(api_key, version, frame[position:])
        self.asked.append((api_key, request))
        if api_key == LIST_OFFSETS:
            self.refused, self.refused_later = [*self.refused, *self.refused_later], []
        answer = self.answers[api_key](self, request)
        written = encode_response(api_key, version, 1, answer)
        return decode_response(api_key, version, written)[1]

    def send(self, api_key: int, body: Any, node: int) -> None:
        self.call(api_key, body, node)

    def begin(self, api_key: int, body: Any, node: int) -> Begun:
        assert node == NODE
        self.begun.append(Begun(self, api_key, body))
        return self.begun[-1]

    def version_of(self, api_key: int, node: int) -> int:
        assert node == NODE
        if self.refused_count:
            self.refused_count -= 1
            raise UnreachableError("Connection refused")
        return self.versions.get(api_key, -1)

    def error_of(self, api_key: int) -> int:
        for index, (key, code) in enumerate(self.errors):
            if key == api_key:
                del self.errors[index]
                return code
        return 0

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def log(self, topic: Topic | None, number: int) -> Log | None:
        return topic.logs[number] if topic is not None and number < len(topic.logs) else None

    def take_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1


MAXIMA = {INIT_PRODUCER_ID: 5}


def _made(api_key: int, name: str, /, **fields: Any) -> Any:
    """An entity of a response, defaults in what is not given."""
    return replace(default_entity(getattr(newest(api_key, "response"), name)), **fields)


def _code(number: int) -> Any:
    from kio.schema.errors import ErrorCode

    return ErrorCode(number)


def _metadata(broker: Broker, request: Any) -> Any:
    names = list(broker.topics) if request.topics is None else [t.name for t in request.topics]
    rows = []
    for name in names:
        topic = broker.topics.get(name)
        if topic is None:
            code = _code(17 if "!" in name else 3)
            rows.append(_made(METADATA, "MetadataResponseTopic", error_code=code, name=name))
            continue
        partitions = tuple(
            _made(METADATA, "MetadataResponsePartition", partition_index=n, leader_id=log.leader,
                  replica_nodes=(NODE,))
            for n, log in reversed(list(enumerate(topic.logs)))
        )  # fmt: skip
        rows.append(
            _made(METADATA, "MetadataResponseTopic", name=name, topic_id=topic.id,
                  is_internal=topic.is_internal, partitions=partitions)
        )  # fmt: skip
    return _made(METADATA, "MetadataResponse", topics=tuple(rows))


def _cluster(broker: Broker, request: Any) -> Any:
    node = _made(DESCRIBE_CLUSTER, "DescribeClusterBroker", broker_id=NODE, host="h", port=1)
    return _made(DESCRIBE_CLUSTER, "DescribeClusterResponse", brokers=(node,))


def _offset(log: Log, timestamp: int, isolation: int) -> tuple[int, int, int]:
    """Offset, time and error."""
    if timestamp == -1:
        return (log.end if not isolation or log.stable is None else log.stable), -1, 0
    if timestamp in (-2, -4):
        return log.start, -1, 0
    if timestamp in (-5, -6):
        return -1, -1, 0
    if timestamp < -6:
        return -1, -1, 35
    found = [r for r in log.records() if timestamp == -3 or r.timestamp_ms >= timestamp]
    if not found:
        return -1, -1, 0
    best = max(found, key=lambda r: r.timestamp_ms) if timestamp == -3 else found[0]
    return int(best.offset), best.timestamp_ms, 0


def _list_offsets(broker: Broker, request: Any) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            log = broker.log(broker.topics.get(topic.name), row.partition_index)
            assert log is not None
            offset, at, code = _offset(log, row.timestamp, request.isolation_level)
            code = broker.error_of(LIST_OFFSETS) or code
            rows.append(
                _made(LIST_OFFSETS, "ListOffsetsPartitionResponse", offset=offset, timestamp=at,
                      partition_index=row.partition_index, error_code=_code(code))
            )  # fmt: skip
        topics.append(
            _made(LIST_OFFSETS, "ListOffsetsTopicResponse", name=topic.name, partitions=tuple(rows))
        )
    return _made(LIST_OFFSETS, "ListOffsetsResponse", topics=tuple(topics))


def _delete_records(broker: Broker, request: Any) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            log = broker.log(broker.topics.get(topic.name), row.partition_index)
            assert log is not None
            offset = log.end if row.offset == -1 else row.offset
            code = 44 if broker.topics[topic.name].is_compacted else int(offset > log.end)
            code = broker.error_of(DELETE_RECORDS) or code
            log.start = log.start if code else max(log.start, offset)
            rows.append(
                _made(DELETE_RECORDS, "DeleteRecordsPartitionResult", error_code=_code(code),
                      partition_index=row.partition_index, low_watermark=log.start)
            )  # fmt: skip
        topics.append(
            _made(DELETE_RECORDS, "DeleteRecordsTopicResult", name=topic.name,
                  partitions=tuple(rows))
        )  # fmt: skip
    return _made(DELETE_RECORDS, "DeleteRecordsResponse", topics=tuple(topics))


def _log_dirs(broker: Broker, request: Any) -> Any:
    sizes = broker.sizes or {
        (topic.name, number): sum(map(len, log.batches))
        for topic in broker.topics.values()
        for number, log in enumerate(topic.logs)
    }
    topics = tuple(
        _made(
            DESCRIBE_LOG_DIRS, "DescribeLogDirsTopic", name=name,
            partitions=tuple(
                _made(DESCRIBE_LOG_DIRS, "DescribeLogDirsPartition", partition_index=number,
                      partition_size=size)
                for (topic, number), size in reversed(sizes.items())
                if topic == name
            ),
        )
        for name in reversed(dict.fromkeys(name for name, _ in sizes))
    )  # fmt: skip
    good = _made(
        DESCRIBE_LOG_DIRS, "DescribeLogDirsResult", log_dir="/var/kafka/n1/log", topics=topics
    )
    code = broker.error_of(DESCRIBE_LOG_DIRS)
    bad = _made(DESCRIBE_LOG_DIRS, "DescribeLogDirsResult", log_dir="/lost", error_code=_code(code))
    results = (good, bad) if code else (good,)
    return _made(DESCRIBE_LOG_DIRS, "DescribeLogDirsResponse", results=results)


def _producer_id(broker: Broker, request: Any) -> Any:
    code = broker.error_of(INIT_PRODUCER_ID)
    return _made(INIT_PRODUCER_ID, "InitProducerIdResponse", error_code=_code(code),
                 producer_id=-1 if code else broker.take_producer_id())  # fmt: skip


NULL_KEY = "Compacted topic cannot accept message without key in topic partition {}-{}"


def _produced(broker: Broker, topic: Topic | None, row: Any) -> Any:
    """The answer for a partition."""
    made = functools.partial(_made, PRODUCE, "PartitionProduceResponse", index=row.index)
    code = broker.error_of(PRODUCE)
    log = broker.log(topic, row.index)
    if code or log is None or topic is None:
        return made(error_code=_code(code or 100))
    batch = first_batch(row.records)
    assert batch.crc_is_valid
    assert batch.header.size_bytes == len(row.records)
    records = batch.records()
    if topic.is_compacted and any(record.key is None for record in records):
        errors = tuple(
            _made(PRODUCE, "BatchIndexAndErrorMessage", batch_index=index,
                  batch_index_error_message=NULL_KEY.format(topic.name, row.index))
            for index, record in enumerate(records)
            if record.key is None
        )  # fmt: skip
        return made(error_code=_code(87), record_errors=errors, error_message=WHOLE_BATCH)
    code = log.sequence_error(batch.header)
    if code:
        return made(error_code=_code(code))
    offset = log.end
    log.batches.append(encode_records(replaced(batch.header, base_offset=offset), [
        replaced(record, offset=offset + delta) for delta, record in enumerate(records)
    ]))  # fmt: skip
    if broker.lost_answers:
        broker.lost_answers -= 1
        raise ClusterError("the connection broke")
    return made(base_offset=offset)


WHOLE_BATCH = "One or more records have been rejected"
replaced = msgspec.structs.replace


def _produce(broker: Broker, request: Any) -> Any:
    topics = []
    for topic in request.topic_data:
        rows = tuple(
            _produced(broker, broker.by_id(topic.topic_id), row) for row in topic.partition_data
        )
        topics.append(_made(PRODUCE, "TopicProduceResponse", topic_id=topic.topic_id,
                            partition_responses=rows))  # fmt: skip
    return _made(PRODUCE, "ProduceResponse", responses=tuple(topics))


def _fetched(broker: Broker, topic: Topic | None, row: Any, isolation: int) -> Any:
    """The answer for a partition."""
    made = functools.partial(_made, FETCH, "PartitionData", partition_index=row.partition)
    code, log = broker.error_of(FETCH), broker.log(topic, row.partition)
    if log is not None and log.old_messages:
        return made(records=log.old_messages)
    if code or log is None:
        return made(error_code=_code(code or 100))
    if not log.start <= row.fetch_offset <= log.end:
        return made(error_code=_code(1), high_watermark=log.end)
    end = log.end if not isolation or log.stable is None else log.stable
    batches = [
        content
        for content in log.batches
        if row.fetch_offset <= first_batch(content).header.last_offset < end
    ]
    aborted = tuple(
        _made(FETCH, "AbortedTransaction", producer_id=producer_id, first_offset=offset)
        for producer_id, offset, last in log.aborted
        if last >= row.fetch_offset
    )
    return made(high_watermark=log.end, records=b"".join(batches[: broker.batches_max]),
                aborted_transactions=aborted if isolation else ())  # fmt: skip


def _fetch(broker: Broker, request: Any) -> Any:
    if broker.lost_answers:
        broker.lost_answers -= 1
        raise ClusterError("the connection broke")
    topics = []
    for topic in request.topics:
        answers = tuple(
            _fetched(broker, broker.by_id(topic.topic_id), row, request.isolation_level)
            for row in topic.partitions
        )
        topics.append(
            _made(FETCH, "FetchableTopicResponse", topic_id=topic.topic_id, partitions=answers)
        )
    rows = [row for topic in topics for row in topic.partitions]
    if not any(row.records or int(row.error_code) for row in rows):
        broker.clock.sleep_ms(round(request.max_wait.total_seconds() * 1000))
    return _made(FETCH, "FetchResponse", responses=tuple(topics))


ANSWERS: dict[int, Callable[[Broker, Any], Any]] = {
    METADATA: _metadata,
    DESCRIBE_CLUSTER: _cluster,
    LIST_OFFSETS: _list_offsets,
    DELETE_RECORDS: _delete_records,
    DESCRIBE_LOG_DIRS: _log_dirs,
    INIT_PRODUCER_ID: _producer_id,
    PRODUCE: _produce,
    FETCH: _fetch,
}
