"""Copies the records of a topic to another one, each exactly once, whatever dies meanwhile.

    python copier.py BOOTSTRAP SOURCE TARGET

What is copied and how far it was read is one transaction. A new instance with the same name aborts
what the last one left open, and reads on from the last transaction that was committed.
"""

import sys

from confluent_kafka import Consumer, Message, Producer

BATCH = 100
WAIT_S = 1.0
TIMEOUT_S = 30.0


class Copier:
    """One instance."""

    def __init__(self, servers: str, source: str, target: str, name: str = "copier") -> None:
        self.target = target
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        self.producer.init_transactions(TIMEOUT_S)
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self.consumer.subscribe([source])

    def read(self) -> list[Message]:
        """Records that have come; none if none came for a second."""
        found = self.consumer.consume(BATCH, WAIT_S)
        return [message for message in found if message.error() is None]

    def write(self, messages: list[Message]) -> None:
        """Begin a transaction with the copies in it."""
        self.producer.begin_transaction()
        for message in messages:
            self.producer.produce(self.target, message.value(), message.key())

    def commit(self) -> None:
        """Commit the copies together with how far the source was read."""
        self.producer.send_offsets_to_transaction(
            self.consumer.position(self.consumer.assignment()),
            self.consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )
        self.producer.commit_transaction(TIMEOUT_S)


def main(servers: str, source: str, target: str) -> None:
    """Copy until the process is ended."""
    copier = Copier(servers, source, target)
    while True:
        if messages := copier.read():
            copier.write(messages)
            copier.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
