"""DescribeLogDirs: real sizes of the logs, cordoned and offline log directories."""

import errno
from datetime import timedelta

import pytest

from broker.apis.log_dirs.describe_log_dirs import DescribeLogDirs
from broker.config import RecordsConfig
from metadata.records import BrokerRegistrationChangeRecord
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.apis.requests import Broker, ask, call_of
from tests.broker.metadata_log import D1, D2
from tests.storage.test_unified_log import NOW, opened, produced
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode
from wire.messages import codec


class Asked:
    def __init__(self, *, rules=None):
        self.broker = Broker("a", rules=rules)
        self.vfs = MemoryVfs()
        for path in ("/d2", "/d1"):
            self.vfs.make_directory(path)
        self.logs = {"/d1": {}, "/d2": {}}
        self.futures = {}
        config = RecordsConfig(
            node_id=1,
            log_dirs=("/d2", "/d1"),
            directory_ids={"/d1": D1, "/d2": D2},
            inter_broker_listener="PLAINTEXT",
        )
        self.handler = DescribeLogDirs(
            config,
            self.broker.image,
            self.broker.access,
            self.logs.get,
            lambda path: self.futures.get(path, []),
            self.vfs.volume,
        )

    def ask(self, topics=None, version=5):
        new = codec.newest(DESCRIBE_LOG_DIRS, "request")
        rows = topics and tuple(
            new.DescribableLogDirTopic(topic=name, partitions=tuple(numbers))
            for name, numbers in topics.items()
        )
        body = new.DescribeLogDirsRequest(topics=rows)
        return ask(self.handler, DESCRIBE_LOG_DIRS, version, body)

    def sizes(self, topics=None, version=5):
        answer = self.ask(topics, version)
        assert (answer.error_code, answer.throttle_time) == (ErrorCode.none, timedelta(0))
        rows = [p for result in answer.results for t in result.topics for p in t.partitions]
        assert {(row.offset_lag, row.is_future_key) for row in rows} <= {(0, False)}
        return [
            (result.log_dir, topic.name, p.partition_index, p.partition_size)
            for result in answer.results
            for topic in result.topics
            for p in topic.partitions
        ]


def log_of(records):
    log = opened(MemoryVfs())
    for _ in range(records):
        log.append_as_leader(produced(NOW), 1, NOW)
    return log


SIZE = len(produced(NOW).buffer)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_the_sizes_of_the_logs(version):
    asked = Asked()
    asked.logs["/d1"] |= {("b", 0): log_of(1), ("a", 1): log_of(3), ("a", 0): log_of(0)}
    asked.logs["/d2"][("a", 2)] = log_of(2)
    everything = [
        ("/d2", "a", 2, 2 * SIZE),
        ("/d1", "a", 0, 0),
        ("/d1", "a", 1, 3 * SIZE),
        ("/d1", "b", 0, SIZE),
    ]
    assert asked.sizes(version=version) == everything
    assert asked.sizes({"a": (1, 2, 9), "x": (0,)}, version) == [everything[0], everything[2]]
    assert asked.sizes({"b": (0,)}, version) == everything[3:]
    assert asked.sizes((), version) == []


def test_the_file_systems_and_cordoned_directories():
    asked = Asked()
    asked.vfs.bytes_max = 1000
    registered = asked.broker.image().brokers[1].epoch
    asked.broker.metadata.write(
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=registered, cordoned_log_dirs=(D2, b"x" * 16)
        )
    )
    size = asked.vfs.volume("/d1")
    rows = [
        (row.log_dir, row.is_cordoned, row.total_bytes, row.usable_bytes)
        for row in asked.ask().results
    ]
    assert rows == [("/d2", True, *size), ("/d1", False, *size)]
    assert {row.is_cordoned for row in asked.ask(version=4).results} == {False}


def test_offline_directories_are_errors():
    asked = Asked()
    del asked.logs["/d2"]
    asked.logs["/d1"][("a", 0)] = log_of(1)
    offline, online = asked.ask().results
    assert (offline.log_dir, offline.error_code) == ("/d2", ErrorCode.kafka_storage_error)
    assert (offline.topics, offline.total_bytes, offline.usable_bytes) == ((), -1, -1)
    assert online.error_code is ErrorCode.none
    asked.vfs.failing = lambda kind, path: errno.EIO if path == "/d1" else None
    assert [row.error_code for row in asked.ask().results] == [ErrorCode.kafka_storage_error] * 2


def test_the_caller_needs_describe_of_the_cluster():
    asked = Asked(rules=AccessRules())
    answer = asked.ask()
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert answer.results == ()
    asked.broker.allow(Operation.DESCRIBE, "kafka-cluster", ResourceType.CLUSTER)
    assert asked.ask().error_code is ErrorCode.none


def test_a_copy_that_is_being_made_is_a_future_one_with_its_lag():
    asked = Asked()
    asked.futures["/d1"] = [(("a", 0), 70, 3)]
    (row,) = [p for r in asked.ask().results for t in r.topics for p in t.partitions]
    assert (row.partition_size, row.offset_lag, row.is_future_key) == (70, 3, True)


def test_each_piece_asks_for_its_logs_anew():
    asked, runs, answers = Asked(), [], []
    log = log_of(1)
    asked.logs["/d2"] |= {("a", n): log for n in range(500)}
    asked.logs["/d1"][("b", 0)] = log
    body = codec.newest(DESCRIBE_LOG_DIRS, "request").DescribeLogDirsRequest(topics=None)
    call = call_of(DESCRIBE_LOG_DIRS, 5, body, answers)
    call.run = runs.append
    asked.handler.serve(call)
    (steps,) = runs
    asked.logs["/d2"].clear()
    asked.logs["/d1"].clear()
    pieces = [call.take_units(), *steps]
    assert all(each >= 64 for each in pieces)
    d2, d1 = answers[0].results
    numbers = [row.partition_index for topic in d2.topics for row in topic.partitions]
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < 500
    assert d1.topics == ()


@pytest.mark.parametrize("path", ["/d2", "/d1"])
def test_a_directory_that_goes_offline_between_two_pieces(path):
    asked, runs, answers = Asked(), [], []
    log = log_of(1)
    asked.logs["/d2"] |= {("a", n): log for n in range(500)}
    body = codec.newest(DESCRIBE_LOG_DIRS, "request").DescribeLogDirsRequest(topics=None)
    call = call_of(DESCRIBE_LOG_DIRS, 5, body, answers)
    call.run = runs.append
    asked.handler.serve(call)
    del asked.logs[path]
    list(runs[0])
    codes = {row.log_dir: (row.error_code, len(row.topics)) for row in answers[0].results}
    assert codes.pop(path) == (ErrorCode.kafka_storage_error, 0)
    assert {code for code, _ in codes.values()} == {ErrorCode.none}


def test_logs_and_copies_are_in_the_order_of_their_names():
    asked = Asked()
    asked.logs["/d1"] |= {("b", 2): log_of(1), ("b", 0): log_of(1), ("d", 0): log_of(0)}
    asked.futures["/d1"] = [(("b", 1), 7, 0), (("c", 0), 8, 0), (("a", 0), 9, 0)]
    _, result = asked.ask().results
    rows = [(t.name, p.partition_index, p.is_future_key) for t in result.topics
            for p in t.partitions]  # fmt: skip
    assert rows == [
        ("a", 0, True), ("b", 0, False), ("b", 1, True), ("b", 2, False), ("c", 0, True),
        ("d", 0, False),
    ]  # fmt: skip
    _, result = asked.ask({"b": (1, 2), "c": (1,)}).results
    rows = [(t.name, p.partition_index) for t in result.topics for p in t.partitions]
    assert rows == [("b", 1), ("b", 2)]


def test_a_log_costs_by_its_segments():
    costs = []
    for count in (0, 100):
        asked, answers = Asked(), []
        log = opened(MemoryVfs(), segment_bytes=SIZE)
        for _ in range(count):
            log.append_as_leader(produced(NOW), 1, NOW)
        asked.logs["/d1"][("a", 0)] = log
        body = codec.newest(DESCRIBE_LOG_DIRS, "request").DescribeLogDirsRequest(topics=None)
        call = call_of(DESCRIBE_LOG_DIRS, 5, body, answers)
        asked.handler.serve(call)
        costs.append(call.units)
    assert costs == [24, 34]
