"""A member without a broker: its parts, and what it does with answers that librdkafka may give."""

import json
import signal
import sys

import pytest

from tests.peers import is_missing

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    from jepsen.groups import member
    from jepsen.groups.member import Member, generation_of, name_of, partition_of
except ImportError:  # an extra of the package
    Consumer = None


@pytest.fixture(autouse=True)
def _library():
    if Consumer is None:
        is_missing("confluent-kafka")


def test_the_generation_is_in_the_metadata_of_the_group():
    number = (258).to_bytes(4, sys.byteorder)
    assert generation_of(b"CGMDv2:" + number + b"group\x00member\x00\x01") == 258
    assert generation_of(b"CGMDv2:\xff\xff\xff\xffgroup\x00\x00\x01") is None
    assert generation_of(b"CGMDv9:" + number + b"group\x00\x00\x01") is None
    assert generation_of(None) is None


def test_librdkafka_still_writes_it_so():
    consumer = Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    assert metadata.startswith(b"CGMDv2:\xff\xff\xff\xffg\x00")


def test_names_of_partitions():
    partition = partition_of("a-b-12", 7)
    assert (partition.topic, partition.partition, partition.offset) == ("a-b", 12, 7)
    assert name_of(partition) == "a-b-12"


class Message:
    def __init__(self, name, offset):
        self.name, self.at = name, offset

    def error(self):
        return None

    def topic(self):
        return self.name.rpartition("-")[0]

    def partition(self):
        return int(self.name.rpartition("-")[2])

    def offset(self):
        return self.at

    def value(self):
        return b"7"


class Script:
    """librdkafka's consumer, whose polls and commits go as told; the last poll ends the member."""

    def __init__(self, *polls, refused=()):
        self.polls = list(polls)
        """Of each: a call of this object, or the messages."""
        self.refused = list(refused)
        """Of each commit: names whose offsets are refused; None: all, by an exception."""
        self.commits = []

    def __call__(self, settings):
        self.settings = settings
        return self

    def subscribe(self, _topics, *, on_assign, on_revoke, on_lost):
        self.on = {"assigned": on_assign, "revoked": on_revoke, "lost": on_lost}

    def consume(self, _count, _seconds):
        if not self.polls:
            signal.raise_signal(signal.SIGTERM)
            return []
        step = self.polls.pop(0)
        if isinstance(step, tuple):
            kind, *names = step
            self.on[kind](self, [partition_of(name, -1001) for name in names])
            return []
        return [Message(*each) for each in step]

    def committed(self, partitions, _seconds):
        return partitions

    def commit(self, *, offsets, asynchronous):
        assert not asynchronous
        self.commits.append({name_of(row): row.offset for row in offsets})
        refused = self.refused.pop(0) if self.refused else ()
        if refused is None:
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        return [Answer(row, name_of(row) in refused) for row in offsets]

    def consumer_group_metadata(self):
        return None

    def close(self):
        self.polls = None


class Answer:
    """A row of a commit's answer."""

    def __init__(self, row, is_refused):
        self.topic, self.partition, self.offset = row.topic, row.partition, row.offset
        self.error = KafkaError(KafkaError.ILLEGAL_GENERATION) if is_refused else None


@pytest.fixture(autouse=True)
def _handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def commits(monkeypatch, script, *, ahead=0):
    """Commits of a member to its end."""
    monkeypatch.setattr(member, "Consumer", script)
    Member("127.0.0.1:1", "g", "cooperative", ahead, ["log"]).run()
    assert script.polls is None, "closed"
    return script.commits


def told(capsys, *kinds):
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(row["f"], row["offsets"]) for row in rows if row["f"] in kinds]


def test_what_is_refused_is_committed_again_though_no_record_follows(monkeypatch, capsys):
    polls = [("assigned", "log-0", "log-1"), [("log-0", 4), ("log-0", 5), ("log-1", 8)], [], [], []]
    script = Script(*polls, refused=[None, ["log-0"]])
    both, one = {"log-0": 6, "log-1": 9}, {"log-0": 6}
    assert commits(monkeypatch, script) == [both, both, one]
    assert told(capsys, "committed", "refused") == [
        ("refused", both), ("committed", {"log-1": 9}), ("refused", one), ("committed", one),
    ]  # fmt: skip


def test_records_that_follow_are_committed_with_it(monkeypatch):
    polls = [("assigned", "log-0", "log-1"), [("log-0", 4), ("log-1", 8)], [("log-0", 5)]]
    script = Script(*polls, refused=[["log-0", "log-1"]])
    assert commits(monkeypatch, script, ahead=1) == [
        {"log-0": 6, "log-1": 10}, {"log-0": 7, "log-1": 10},
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["revoked", "lost"])
def test_a_partition_that_is_given_up_is_the_next_members(monkeypatch, capsys, end):
    polls = [
        ("assigned", "log-0"), ("assigned", "log-1"), [("log-0", 4), ("log-1", 8)], (end, "log-0"),
        [("log-0", 5)], ("assigned", "log-0"), [("log-0", 6)],
    ]  # fmt: skip
    script = Script(*polls, refused=[None])
    assert commits(monkeypatch, script) == [
        {"log-0": 5, "log-1": 9}, {"log-1": 9}, {"log-0": 7},
    ]  # fmt: skip
    assert f'"f": "{end}"' in capsys.readouterr().out
