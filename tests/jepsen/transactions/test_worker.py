"""An application without a broker: whatever librdkafka's producer raises ends its attempt alone."""

import pytest

from tests.peers import is_missing

try:
    from confluent_kafka import KafkaError, KafkaException

    from jepsen.transactions import worker
    from jepsen.transactions.worker import Worker
except ImportError:  # an extra of the package
    worker = None

APPENDS = [["append", "txn-a-1", 7]]


@pytest.fixture(autouse=True)
def _library():
    if worker is None:
        is_missing("confluent-kafka")


class Librdkafka:
    """Makes producers: calls of the first are answered as told, those of others succeed."""

    def __init__(self, *, fatal_from=None, refuses=None, is_delivered=True):
        self.fatal_from = fatal_from
        """Every call raises that the producer is fenced, from the first of this name on."""
        self.refuses = refuses
        """A call that raises an error with which the producer can go on."""
        self.is_delivered = is_delivered
        self.made = []

    def __call__(self, settings):
        producer = ScriptedProducer(self if not self.made else Librdkafka(), settings)
        self.made.append(producer)
        return producer


class ScriptedProducer:
    def __init__(self, script, settings):
        self.script = script
        self.id = settings["transactional.id"]
        self.calls = []
        self.is_fatal = False

    def call(self, name):
        self.calls.append(name)
        self.is_fatal = self.is_fatal or name == self.script.fatal_from
        if self.is_fatal:
            fenced = KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True)
            raise KafkaException(fenced)
        if name == self.script.refuses:
            raise KafkaException(KafkaError(KafkaError._STATE, "not now"))

    def init_transactions(self, _seconds):
        self.call("init")

    def begin_transaction(self):
        self.call("begin")

    def produce(self, topic, _content, *, partition, on_delivery):
        assert (topic, partition) == ("txn-a", 1)
        self.call("produce")
        self.delivered = on_delivery

    def flush(self, _seconds):
        self.call("flush")
        return 0

    def poll(self, seconds):
        assert seconds == 0
        self.call("poll")
        if self.script.is_delivered and "produce" in self.calls:
            self.delivered(None, self)

    def offset(self):
        return 40

    def abort_transaction(self, _seconds):
        self.call("abort")

    def commit_transaction(self, _seconds):
        self.call("commit")

    def purge(self):
        self.calls.append("purge")


def run_twice(monkeypatch, library, ending):
    """Kind and error of a transaction, and the producers that it and the one behind it had."""
    monkeypatch.setattr(worker, "Producer", library)
    application = Worker("127.0.0.1:1", 3, "read_committed")
    done = application.run(APPENDS, ending)
    assert application.run(APPENDS, "commit").type == "ok"
    return done, library.made


@pytest.mark.parametrize(
    ("call", "ending", "kind"),
    [
        ("init", "commit", "fail"),
        ("begin", "commit", "fail"),
        ("produce", "commit", "fail"),
        ("flush", "abort", "fail"),
        ("abort", "abort", "fail"),
        ("commit", "commit", "info"),
    ],
)
def test_a_fenced_producer_ends_its_attempt_and_is_made_anew(monkeypatch, call, ending, kind):
    done, made = run_twice(monkeypatch, Librdkafka(fatal_from=call), ending)
    assert (done.type, done.error) == (kind, "_FENCED: fenced by a newer instance")
    assert [producer.id for producer in made] == ["txn-3-0", "txn-3-0"]
    assert made[1].calls == ["init", "begin", "produce", "commit"]


def test_a_producer_may_tell_that_it_is_fenced_when_it_is_asked_what_arrived(monkeypatch):
    library = Librdkafka(refuses="abort", fatal_from="poll")
    done, made = run_twice(monkeypatch, library, "abort")
    assert (done.type, done.error) == ("fail", "_STATE: not now")
    assert made[0].calls == ["init", "begin", "produce", "flush", "abort", "poll", "purge"]
    assert len(made) == 2


def test_a_producer_whose_records_have_arrived_goes_on_behind_an_abort(monkeypatch):
    done, made = run_twice(monkeypatch, Librdkafka(refuses="flush"), "abort")
    assert (done.type, done.offsets) == ("fail", [40])
    (producer,) = made
    assert producer.calls[:6] == ["init", "begin", "produce", "flush", "poll", "abort"]
    assert producer.calls[6:] == ["begin", "produce", "commit"]


def test_another_producer_begins_behind_records_of_which_nobody_knows(monkeypatch):
    library = Librdkafka(refuses="flush", is_delivered=False)
    done, made = run_twice(monkeypatch, library, "abort")
    assert (done.type, done.offsets) == ("fail", [None])
    assert made[0].calls[4:] == ["poll", "abort", "purge"]
    assert len(made) == 2


def test_a_commit_without_an_answer_is_not_aborted(monkeypatch):
    done, made = run_twice(monkeypatch, Librdkafka(refuses="commit"), "commit")
    assert done.type == "info"
    assert made[0].calls == ["init", "begin", "produce", "commit", "purge"]
    assert len(made) == 2
