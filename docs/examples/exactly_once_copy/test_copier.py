"""The copy loses nothing and doubles nothing: not by an instance that dies, nor by a broker."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from copier import Copier

RECORDS = 500


def committed_values(servers, topic, count):
    """Values that a reader of committed transactions sees, until so many came or none for 2 s."""
    settings = {"group.id": "reader", "isolation.level": "read_committed"}
    reader = Consumer({"bootstrap.servers": servers, **settings})
    reader.assign([TopicPartition(topic, 0, 0)])
    values = []
    while found := reader.consume(count, 2.0):
        values += [message.value() for message in found]
    reader.close()
    return values


def test_each_record_is_copied_once(kafka_cluster):
    servers = kafka_cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic("source", 1), NewTopic("target", 1)]).values():
        made.result(10)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce("source", b"%d" % number)
    assert producer.flush(10) == 0

    first = Copier(servers, "source", "target")
    while not (messages := first.read()):
        pass
    first.write(messages)
    first.commit()
    first.write(first.read())
    first.producer.flush(10)
    first.consumer.close()  # it ends here: the copies are written, their transaction is open
    kafka_cluster.kill(kafka_cluster.leader("target"))

    second = Copier(servers, "source", "target")
    copied = len(messages)
    while copied < RECORDS:
        if messages := second.read():
            second.write(messages)
            second.commit()
            copied += len(messages)
    assert committed_values(servers, "target", RECORDS) == [b"%d" % n for n in range(RECORDS)]
