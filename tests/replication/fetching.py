"""Leaders that answer fetchers by the bytes of the wire, from partitions over logs in memory."""

import importlib
import random
from datetime import timedelta
from itertools import chain, zip_longest

import msgspec
from kio.serial import entity_reader

from network.clock import Clock, Now
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.follower.fetchers import Fetchers
from replication.follower.follower_broker import FollowerBroker, ReplicaFetchConfig
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import (
    FetchManager,
    FetchPartition,
    FetchSessionCache,
    FetchSessionRequest,
)
from replication.throttle import ReplicationQuota
from simulator.cluster.memory_vfs import MemoryVfs
from tests.replication.partitions import LOG_END, WALL_MS, Brokers, append, registration
from tests.storage.test_unified_log import content, opened
from wire.api_keys import FETCH, LIST_OFFSETS
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode
from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    newest,
)
from wire.messages.fetch_response import FetchedPartition, encode_fetch_response
from wire.messages.replica_fetch import (
    ReplicaFetchedPartition,
    ReplicaFetchResponse,
    decode_replica_fetched,
    encode_replica_fetch,
)

TOPIC = b"t" * 16
NAME = "topic"
BACKOFF_MS = 1000


def key(number=0):
    return (TOPIC, number)


def none_or(number):
    return None if number < 0 else number


class Leader:
    """The leader's side of a broker: sessions over partitions."""

    def __init__(self, partitions, note=lambda _node, _changed: None, slots=10):
        self.partitions = partitions
        self.note = note
        self.slots = slots
        self.forget_sessions()
        self.requests = []
        """Fetch requests as they came, in kio's shape."""

    def forget_sessions(self):
        self.manager = FetchManager(FetchSessionCache(self.slots, random.Random(1)))

    def answer(self, version, api_key, encoded, now_ms=0):
        """The bytes that answer the bytes of a request."""
        if api_key == LIST_OFFSETS:
            return self._offsets(decode_request(LIST_OFFSETS, 11, encoded))
        schema = importlib.import_module(f"kio.schema.fetch.v{version}.request")
        request, size = entity_reader(schema.FetchRequest)(encoded, 0)
        assert size == len(encoded)
        self.requests.append(request)
        rows = {
            (topic.topic_id.bytes, each.partition): FetchPartition(
                fetch_offset=each.fetch_offset,
                max_bytes=each.partition_max_bytes,
                current_leader_epoch=none_or(each.current_leader_epoch),
                last_fetched_epoch=none_or(each.last_fetched_epoch),
                log_start_offset=each.log_start_offset,
            )
            for topic in request.topics
            for each in topic.partitions
        }
        forgotten = [
            (topic.topic_id.bytes, number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]
        context = self.manager.new_context(
            FetchSessionRequest(
                version=version,
                session_id=request.session_id,
                epoch=request.session_epoch,
                is_from_follower=True,
                partitions=rows,
                forgotten=forgotten,
            ),
            lambda _: NAME,
            now_ms,
        )
        state = getattr(request, "replica_state", None)
        replica_id = request.replica_id if state is None else state.replica_id
        epoch = None if state is None else none_or(state.replica_epoch)
        params = FetchParams(
            replica_id=replica_id,
            replica_epoch=epoch,
            max_wait_ms=0,
            min_bytes=1,
            isolation=LOG_END,
            is_leader_only=True,
        )
        answers, records = {}, {}
        for each in context.partitions():
            answers[each.key], records[each.key] = self._read(params, each, now_ms)
        response = context.respond(list(answers.values()), now_ms)
        pieces = encode_fetch_response(
            version, response.rows, code=response.code, session_id=response.session_id
        )
        sent = [records[row.topic, row.partition] for row in response.rows]
        return b"".join(chain.from_iterable(zip_longest(pieces, sent, fillvalue=b"")))

    def _read(self, params, each, now_ms):
        topic, number = each.key
        partition = self.partitions.get(each.key)
        if partition is None:
            return FetchedPartition(
                topic=topic, partition=number, code=ErrorCode.unknown_topic_id
            ), b""
        fetched = partition.fetch(
            params,
            each.request,
            max_bytes=each.request.max_bytes,
            at_least_one=True,
            now_ms=now_ms,
        )
        if isinstance(fetched, ErrorCode):
            return FetchedPartition(topic=topic, partition=number, code=fetched), b""
        self.note(partition, fetched.changed)
        records = b"" if fetched.records is None else fetched.records.read()
        diverging = fetched.diverging_epoch
        return FetchedPartition(
            topic=topic,
            partition=number,
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.last_stable_offset,
            log_start_offset=fetched.log_start_offset,
            diverging_epoch=None if diverging is None else (diverging.epoch, diverging.offset),
            records_bytes=len(records),
        ), records

    def _offsets(self, request):
        new = newest(LIST_OFFSETS, "response")
        ((topic, (row,)),) = [(topic.name, topic.partitions) for topic in request.topics]
        assert (topic, request.replica_id >= 0) == (NAME, True)
        partition = self.partitions.get(key(row.partition_index))
        found = ErrorCode.unknown_topic_or_partition
        if partition is not None:
            found = partition.offset_for_timestamp(
                row.timestamp, LOG_END, row.current_leader_epoch, is_leader_only=True
            )
        fields = {"error_code": found, "offset": -1}
        if not isinstance(found, ErrorCode):
            fields = {"error_code": ErrorCode.none, "offset": found.offset}
        answer = new.ListOffsetsPartitionResponse(partition_index=row.partition_index, **fields)
        topics = (new.ListOffsetsTopicResponse(name=topic, partitions=(answer,)),)
        body = new.ListOffsetsResponse(throttle_time=timedelta(0), topics=topics)
        return encode_response(LIST_OFFSETS, 11, 0, body)


class Follower:
    """The follower's side of a broker; what it sends waits until it is answered."""

    def __init__(self, node_id, partitions, brokers, version=18, **config):
        self.clock = Clock(Now(0, WALL_MS))
        self.effects = []
        self.budget = TurnBudget(1 << 30)
        self.partitions = partitions
        self.version = version
        self.sent = []
        """Leader, number, API key, bytes, and what is called with the response."""
        self.took = []
        self.disk_failures = []
        self.on_disk_failure = lambda: None
        self.quota = ReplicationQuota(QuotaWindow(), self.clock)
        broker = FollowerBroker(
            counters=Counters(),
            is_added=lambda _: False,
            quota=self.quota,
            node_id=node_id,
            config=ReplicaFetchConfig(backoff_ms=BACKOFF_MS, **config),
            clock=self.clock,
            effects=self.effects,
            budget=self.budget,
            broker_epoch=lambda: brokers.registered[node_id].epoch,
            partition_of=partitions.get,
            took=lambda key, raised: self.took.append((key, raised)),
            disk_failed=self._disk_failed,
        )
        self.fetchers = Fetchers(broker, self._send)

    def _disk_failed(self, key, error):
        self.disk_failures.append((key, error))
        self.on_disk_failure()

    def _send(self, leader_id, number, api_key, body, answered):
        if api_key == FETCH:
            encoded = encode_replica_fetch(self.version, body)
        else:
            encoded = encode_request(api_key, 11, 0, None, body)[11:]
        self.sent.append((leader_id, number, api_key, encoded, answered))

    def respond(self, sent, response):
        """Take the bytes of a response, None for none."""
        *_, api_key, _, answered = sent
        if response is None:
            answered(None)
        elif api_key == FETCH:
            answered(decode_replica_fetched(self.version, response))
        else:
            answered(decode_response(api_key, 11, response)[1])

    def advance(self, duration_ms):
        """Let time pass, then send what is due."""
        self.clock.now_ms += duration_ms
        self.fetchers.tick()

    def logged(self):
        return [effect.event for effect in self.effects]


class Pair:
    """A follower, broker 2, of partitions that broker 1 leads."""

    def __init__(self, records=0, count=1, version=18, epoch=1, slots=10, **config):
        self.brokers = Brokers()
        self.led, self.followed = {}, {}
        for number in range(count):
            self.led[key(number)] = self.opened(1, epoch)
            self.followed[key(number)] = self.opened(2, epoch)
            self.append(records, number)
        self.leader = Leader(self.led, slots=slots)
        self.follower = Follower(2, self.followed, self.brokers, version, **config)
        self.fetchers = self.follower.fetchers

    def opened(self, node_id, epoch=1, log=None):
        partition = self.brokers.partition(node_id)
        partition.open_log(opened(MemoryVfs()) if log is None else log, 0)
        change = partition.make_leader if node_id == 1 else partition.make_follower
        change(registration(epoch=epoch), 0)
        return partition

    def append(self, count, number=0):
        for _ in range(count):
            append(self.led[key(number)], 0)

    def assign(self, *numbers, epoch=1):
        for number in numbers or (0,):
            self.fetchers.assign(key(number), NAME, 1, epoch)
        self.fetchers.tick()

    def exchange(self, times=1):
        """Answer the oldest request, which may send the next."""
        for _ in range(times):
            sent = self.follower.sent.pop(0)
            _, _, api_key, encoded, _ = sent
            answer = self.leader.answer(self.follower.version, api_key, encoded)
            self.follower.respond(sent, answer)

    def lose(self):
        """Lose the oldest request."""
        self.follower.respond(self.follower.sent.pop(0), None)

    def requested(self):
        """The next request in kio's shape, which stays unanswered."""
        schema = importlib.import_module(f"kio.schema.fetch.v{self.follower.version}.request")
        *_, api_key, encoded, _ = self.follower.sent[0]
        assert api_key == FETCH
        return entity_reader(schema.FetchRequest)(encoded, 0)[0]

    def numbers(self):
        """Partitions that the next request names, and those that it forgets."""
        request = self.requested()
        return (
            [each.partition for topic in request.topics for each in topic.partitions],
            [each for topic in request.forgotten_topics_data for each in topic.partitions],
        )

    def is_same(self, number=0):
        return self.bytes_of(self.led, number) == self.bytes_of(self.followed, number)

    def bytes_of(self, side, number=0):
        log = side[key(number)].log
        return content(log, log.log_start_offset)


class FailingLog:
    """A log whose disk fails: `error` is raised by what changes it."""

    def __init__(self, log, error):
        self._log, self._error = log, error

    def __getattr__(self, name):
        if name in ("append_as_follower", "truncate_to", "truncate_fully_and_start_at"):
            raise self._error
        return getattr(self._log, name)


def batches(*offsets, epoch=1):
    return b"".join(encode_batch([b"v"], offset, epoch, WALL_MS) for offset in offsets)


def answered(pair, number=0, session_id=0, code=ErrorCode.none, **fields):
    """Answer the oldest request with one partition, or with an error of the whole."""
    row = ReplicaFetchedPartition(
        **({"key": key(number), "high_watermark": 0, "log_start_offset": 0} | fields)
    )
    partitions = (row,) if code is ErrorCode.none else ()
    response = ReplicaFetchResponse(code=code, session_id=session_id, partitions=partitions)
    *_, callback = pair.follower.sent.pop(0)
    callback(response)


def with_error(pair, code, number=0):
    """Answer the oldest request with an error of one partition; the session goes on."""
    sent = pair.follower.sent.pop(0)
    version, (*_, api_key, encoded, callback) = pair.follower.version, sent
    answer = decode_replica_fetched(version, pair.leader.answer(version, api_key, encoded))
    row = ReplicaFetchedPartition(
        key=key(number), code=code, high_watermark=-1, log_start_offset=-1
    )
    others = tuple(each for each in answer.partitions if each.key != key(number))
    callback(msgspec.structs.replace(answer, partitions=(row, *others)))
