"""An exactly-once copy as a process, for runs that kill it and its brokers.

    python -m tests.interop.copier BOOTSTRAP TRANSACTIONAL_ID GROUP INPUT OUTPUT

Reads the input in a group, writes each value to the same partition of the output, and commits the
offsets in the transaction of the copies. One object a line: {"copied": count} behind each commit,
{"aborted": error} behind each abort. SIGTERM ends it behind a whole transaction with exit code 0;
an error after which the producer cannot go on ends it with 1: the next instance takes over.

librdkafka (2.16 too) may never come back from `send_offsets_to_transaction`, whatever its time-out:
it waits for a state change of a group coordinator that has left the metadata, hence was removed,
and asks nobody (confluentinc/librdkafka issues 5511 and 5456). Such an instance prints {"stuck":
seconds} and ends with `STUCK`: no signal handler of Python runs within the call.
"""

import os
import sys
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.interop.group_member import SESSION_MS, Stop, say

SECONDS = 60.0
STUCK_SECONDS = SECONDS + 30.0
"""Time after which a call with a time-out of `SECONDS` never ends."""
STUCK = 75
"""Exit code of an instance whose client never comes back."""
BATCH = 500


class Copier:
    """The loop of one instance."""

    def __init__(self, bootstrap: str, name: str, group: str, source: str, target: str) -> None:
        self._target = target
        self._stop = Stop()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0,
             "transaction.timeout.ms": 20_000}
        )  # fmt: skip
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
             "auto.offset.reset": "earliest", "isolation.level": "read_committed",
             "session.timeout.ms": SESSION_MS, "log_level": 0}
        )  # fmt: skip
        self._consumer.subscribe([source])

    def run(self) -> None:
        """Copy until SIGTERM."""
        self._producer.init_transactions(SECONDS)
        while not self._stop.is_set:
            found = self._consumer.consume(BATCH, 0.5)
            messages = [message for message in found if message.error() is None]
            if messages:
                self._copy(messages)
        self._consumer.close()

    def _copy(self, messages: list[Message]) -> None:
        """Copy in one transaction; if it has to be aborted, the records are read again."""
        producer, consumer = self._producer, self._consumer
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(self._target, message.value(), partition=message.partition())
            ends = {m.partition(): m for m in messages}
            positions = [TopicPartition(m.topic(), p, m.offset() + 1) for p, m in ends.items()]
            group = consumer.consumer_group_metadata()
            _retried(lambda: producer.send_offsets_to_transaction(positions, group, SECONDS))
            _retried(lambda: producer.commit_transaction(SECONDS))
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            _retried(lambda: producer.abort_transaction(SECONDS))
            say(aborted=str(failed.args[0]))
            self._seek_back(messages)
        else:
            say(copied=len(messages))

    def _seek_back(self, messages: list[Message]) -> None:
        """Read the records again that are still this instance's."""
        owned = {each.partition for each in self._consumer.assignment()}
        firsts = {message.partition(): message for message in reversed(messages)}
        for partition, message in firsts.items():
            if partition in owned:
                place = TopicPartition(message.topic(), partition, message.offset())
                self._consumer.seek(place)


def _retried(call: Callable[[], object]) -> None:
    """Call again as long as the error says so."""
    while True:
        watch = threading.Timer(STUCK_SECONDS, _give_up)
        watch.daemon = True
        watch.start()
        try:
            call()
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
        else:
            return
        finally:
            watch.cancel()


def _give_up() -> None:
    say(stuck=STUCK_SECONDS)
    os._exit(STUCK)


def main() -> None:
    """Copy until SIGTERM or a fatal error."""
    bootstrap, name, group, source, target = sys.argv[1:]
    try:
        Copier(bootstrap, name, group, source, target).run()
    except KafkaException as failed:
        say(failed=str(failed.args[0]))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
