"""The blocking producer: bytes as Kafka's, retries, sequences, batches."""

import random
from typing import Any

import pytest

from cli.kafka_errors import message_of
from cli.records.clients.partitioner import Partitioner, murmur2
from cli.records.clients.producer import Delivered, Outgoing, Producer, ProducerConfig, SendError
from cli.records.clients.topic_metadata import NO_LEADER, Partition, Topic
from tests.cli.records.broker import INIT_PRODUCER_ID, METADATA, PRODUCE, Broker, Log, first_batch
from tests.wire.recorded_pairs import named
from wire.batches.batch import iterate_batches
from wire.batches.compression import Codec
from wire.messages.codec import decode_request, encode_request, split_request


class Ends(list[Delivered | SendError]):
    """The ends of records in the order in which they were told."""

    def __call__(self, _record: Outgoing, end: Delivered | SendError) -> None:
        self.append(end)

    @property
    def offsets(self) -> list[int]:
        return [end.offset for end in self if isinstance(end, Delivered)]

    @property
    def errors(self) -> list[str]:
        return [str(end) for end in self if isinstance(end, SendError)]


def producer(broker: Broker, **config: Any) -> Producer:
    return Producer(broker, ProducerConfig(**config), broker.clock, random.Random(1))


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in log.records()]


def produced(broker: Broker) -> list[Any]:
    return [body for key, body in broker.asked if key == PRODUCE]


def test_the_frames_are_those_of_kafkas_console_producer() -> None:
    pair = named("static-4.3.1-00213")
    frame = bytes.fromhex(pair["request_hex"])
    body = decode_request(PRODUCE, 13, frame[split_request(frame)[1] :])
    batch = first_batch(body.topic_data[0].partition_data[0].records)
    broker = Broker(t=2)
    made = producer(broker, request_timeout_ms=1500)
    broker._next_producer_id = batch.header.producer_id
    for r in batch.records():
        made.send(Outgoing("t", r.key, r.value, r.headers, r.timestamp_ms, 1), Ends())
    made.flush()
    asked = dict(broker.asked)
    ids = encode_request(INIT_PRODUCER_ID, 5, 6, "console-producer", asked[INIT_PRODUCER_ID])
    assert ids.hex() == named("static-4.3.1-00212")["request_hex"]
    ours = encode_request(PRODUCE, 13, 8, "console-producer", asked[PRODUCE])
    theirs = body.topic_data[0].topic_id.bytes
    assert ours.replace(broker.topics["t"].id.bytes, theirs) == frame


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
     (b"a-little-bit-longer-string", -1486304829), (b"abc", 479470107),
     (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971)],
)  # fmt: skip
def test_the_hash_of_kafkas_own_test(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_records_without_key_keep_to_a_partition_for_a_batch() -> None:
    topic = Topic("t", None, False, 0, {0: 1, 1: NO_LEADER, 2: 1, 3: 1})
    chosen = Partitioner(100, random.Random(3))
    numbers = [chosen.partition(topic, None, 50) for _ in range(400)]
    assert numbers[::2] == numbers[1::2]
    assert set(numbers) == {0, 2, 3}
    lost = Topic("u", None, False, 0, {0: NO_LEADER})
    assert chosen.partition(lost, None, 5) == 0


def test_a_batch_ends_when_it_is_full() -> None:
    broker = Broker(t=1)
    ends = Ends()
    made = producer(broker, batch_size_bytes=200, linger_ms=1000)
    for number in range(30):
        made.send(Outgoing("t", None, b"%010d" % number), ends)
    assert 20 < len(ends) < 30, "full batches went out at once"
    made.flush()
    assert ends.offsets == list(range(30))
    log = broker.topics["t"].logs[0]
    assert values(log) == [b"%010d" % number for number in range(30)]
    assert 3 < len(log.batches) < 6
    assert all(len(batch) <= 210 for batch in log.batches)
    assert all(first_batch(batch).header.size_bytes > 150 for batch in log.batches[:-1])


def test_a_record_lingers_no_longer_than_it_may() -> None:
    broker = Broker(t=1)
    ends = Ends()
    made = producer(broker, linger_ms=50)
    assert made.next_ms() is None
    made.send(Outgoing("t", None, b"a"), ends)
    assert made.next_ms() == 50
    broker.clock.sleep_ms(49)
    made.poll()
    assert ends == []
    broker.clock.sleep_ms(1)
    made.send(Outgoing("t", None, b"b"), ends)
    assert ends.offsets == [0, 1]
    assert made.next_ms() is None
    (end, _) = ends
    assert isinstance(end, Delivered)
    assert (end.partition, end.timestamp_ms) == (Partition("t", 0), broker.clock.wall_ms() - 50)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec(codec: Codec) -> None:
    broker = Broker(t=1)
    made = producer(broker, codec=codec)
    for _ in range(5):
        made.send(Outgoing("t", b"k", b"v" * 100, (("h", None), ("h", b""))), Ends())
    made.flush()
    log = broker.topics["t"].logs[0]
    (batch,) = iterate_batches(log.batches[0])
    assert batch.header.codec is codec
    assert values(log) == [b"v" * 100] * 5
    assert log.records()[0].headers == (("h", None), ("h", b""))


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_an_answer_that_is_lost(is_idempotent: bool) -> None:
    broker = Broker(t=1)
    broker.lost_answers = 1
    ends = Ends()
    made = producer(broker, is_idempotent=is_idempotent)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    made.send(Outgoing("t", None, b"b"), ends)
    made.flush()
    assert ends.offsets == ([-1, 1] if is_idempotent else [1, 2])
    written = values(broker.topics["t"].logs[0])
    assert written == [b"a", b"b"] if is_idempotent else [b"a", b"a", b"b"]


def test_a_batch_given_up_after_an_uncertain_end_leaves_the_next_ones_a_new_epoch() -> None:
    broker = Broker(t=2)
    ends = Ends()
    made = producer(broker, retries=0)
    made.send(Outgoing("t", None, b"a", partition=1), ends)
    made.flush()
    broker.lost_answers = 1
    made.send(Outgoing("t", None, b"b", partition=0), ends)
    made.flush()
    made.send(Outgoing("t", None, b"c", partition=0), ends)
    made.send(Outgoing("t", None, b"d", partition=1), ends)
    made.flush()
    assert ends.errors == ["the connection broke"]
    assert ends.offsets == [0, 1, 1]
    logs = broker.topics["t"].logs
    headers = [first_batch(content).header for log in logs for content in log.batches]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [
        (0, 0),
        (1, 0),
        (0, 0),
        (1, 0),
    ]


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 19, 56, 100])
def test_an_error_that_passes_is_tried_again_after_a_look_at_the_metadata(code: int) -> None:
    broker = Broker(t=1)
    broker.errors = [(PRODUCE, code), (PRODUCE, code)]
    ends = Ends()
    made = producer(broker, retries=2)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.offsets == [0]
    assert broker.clock.now_ms() == 100 + 200
    assert [key for key, _ in broker.asked].count(METADATA) == 3


def test_a_leader_that_refuses_connections_costs_time_and_no_attempts() -> None:
    for refused_count, ended in ((9, "sent"), (99, "refused")):
        broker, ends = Broker(t=1), Ends()
        broker.refused_count = refused_count
        made = producer(broker, retries=0, delivery_timeout_ms=5_000)
        made.send(Outgoing("t", None, b"a"), ends)
        made.flush()
        found = (ends.offsets, ends.errors)
        assert found == (([0], []) if ended == "sent" else ([], ["Connection refused"]))


def test_a_partition_without_a_leader_costs_time_and_no_attempts() -> None:
    broker, ends = Broker(t=[Log(leader=-1)]), Ends()
    made = producer(broker, retries=0, delivery_timeout_ms=5_000)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.errors == [message_of(5)]
    assert broker.clock.now_ms() == 5_000


def test_attempts_and_time_end() -> None:
    for config, passed_ms in (({"retries": 1}, 100), ({"delivery_timeout_ms": 700}, 700)):
        broker = Broker(t=1)
        broker.errors = [(PRODUCE, 19)] * 9
        ends = Ends()
        made = producer(broker, **config)
        made.send(Outgoing("t", None, b"a"), ends)
        made.flush()
        assert ends.errors == [message_of(19)]
        assert broker.clock.now_ms() == passed_ms


@pytest.mark.parametrize(("code", "epoch"), [(45, 1), (47, 1), (10, 0), (87, 0)])
def test_an_error_that_stays(code: int, epoch: int) -> None:
    broker = Broker(t=1)
    broker.errors = [(PRODUCE, code)]
    broker._next_producer_id = 0
    ends = Ends()
    made = producer(broker)
    for value in (b"a", b"b"):
        made.send(Outgoing("t", None, value), ends)
        made.flush()
    assert ends.errors == [message_of(code)]
    assert ends.offsets == [0]
    header = first_batch(broker.topics["t"].logs[0].batches[0]).header
    assert (header.producer_epoch, header.base_sequence) == (epoch, 0)


def test_a_producer_that_the_broker_has_forgotten_begins_a_new_epoch() -> None:
    broker = Broker(t=1)
    ends = Ends()
    made = producer(broker)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    broker.errors = [(PRODUCE, 59)]
    made.send(Outgoing("t", None, b"b"), ends)
    made.flush()
    assert ends.offsets == [0, 1]
    header = first_batch(broker.topics["t"].logs[0].batches[1]).header
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_one_bad_record_in_a_batch_refuses_all_with_its_own_reason() -> None:
    broker = Broker(t=1)
    broker.topics["t"].is_compacted = True
    ends = Ends()
    made = producer(broker)
    made.send(Outgoing("t", b"k", b"a"), ends)
    made.send(Outgoing("t", None, b"b"), ends)
    made.flush()
    assert [error[:20] for error in ends.errors] == ["Failed to append rec", "Compacted topic cann"]


def test_without_acknowledgements_nothing_is_awaited() -> None:
    broker = Broker(t=1)
    ends = Ends()
    made = producer(broker, acks=0, is_idempotent=False)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.offsets == [-1]
    (request,) = produced(broker)
    header = first_batch(broker.topics["t"].logs[0].batches[0]).header
    assert (request.acks, header.producer_id, header.base_sequence) == (0, -1, -1)


def test_an_id_that_is_not_there_yet() -> None:
    broker = Broker(t=1)
    broker.errors = [(INIT_PRODUCER_ID, 14), (INIT_PRODUCER_ID, 14)]
    ends = Ends()
    made = producer(broker)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.offsets == [0]
    assert len(produced(broker)) == 1


def test_a_leader_that_comes_later() -> None:
    log = Log(leader=NO_LEADER)
    broker = Broker(t=[log])
    ends = Ends()
    made = producer(broker, delivery_timeout_ms=1000)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.errors == [message_of(5)]
    log.leader = 1
    made.send(Outgoing("t", None, b"b"), ends)
    made.flush()
    assert ends.offsets == [0]


def test_requests_are_no_larger_than_they_may_be() -> None:
    broker = Broker(t=3)
    ends = Ends()
    made = producer(broker, max_request_bytes=500, linger_ms=1000)
    for number in (0, 1, 2):
        made.send(Outgoing("t", None, b"x" * 150, partition=number), ends)
    made.send(Outgoing("t", None, b"x" * 500), ends)
    (error,) = ends.errors
    assert error.startswith("The message is 568 bytes when serialized which is larger than 500, ")
    made.flush()
    assert [len(t.partition_data) for body in produced(broker) for t in body.topic_data] == [2, 1]


def test_records_that_have_no_partition() -> None:
    broker = Broker(t=1)
    ends = Ends()
    made = producer(broker, max_block_ms=250)
    made.send(Outgoing("t", None, b"a", partition=1), ends)
    made.send(Outgoing("no!", None, b"a"), ends)
    made.send(Outgoing("late", None, b"a"), ends)
    assert ends.errors == [
        "Partition 1 of topic t with partition count 1 is not present in metadata after 250 ms.",
        "Invalid topics: [no!]",
        "Topic late not present in metadata after 250 ms.",
    ]
    assert broker.clock.now_ms() == 250
    asked = [body for key, body in broker.asked if key == METADATA]
    assert all(body.allow_auto_topic_creation for body in asked)


def test_an_old_broker() -> None:
    broker = Broker(t=1)
    broker.versions[PRODUCE] = 12
    ends = Ends()
    made = producer(broker)
    made.send(Outgoing("t", None, b"a"), ends)
    made.flush()
    assert ends.errors == ["the broker does not know Produce 13, which Kafka has from 4.1 on"]
