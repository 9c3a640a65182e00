"""Images for the tests: brokers 1..n with a PLAINTEXT listener, topics with given replicas."""

from immutables import Map

from metadata.image import Broker, Controller, Image, Partition, Topic
from metadata.records import RegisteredEndpoint
from wire.types import DirectoryId

LISTENER = "PLAINTEXT"


def directory(broker_id: int) -> DirectoryId:
    return DirectoryId(bytes([1] * 15 + [broker_id]))


def broker(broker_id: int, *, fenced: bool = False, listener: str = LISTENER, rack=None) -> Broker:
    return Broker(
        id=broker_id,
        epoch=broker_id * 10,
        incarnation_id=bytes(16),
        endpoints=(RegisteredEndpoint(name=listener, host="127.0.0.1", port=9090 + broker_id),),
        features=(),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=(directory(broker_id),),
        cordoned_log_dirs=None,
        registration_offset=broker_id * 10,
    )


def controller(controller_id: int) -> Controller:
    endpoint = RegisteredEndpoint(name="CONTROLLER", host="127.0.0.1", port=9190 + controller_id)
    return Controller(
        id=controller_id,
        incarnation_id=bytes(16),
        zk_migration_ready=False,
        endpoints=(endpoint,),
        features=(),
    )


def partition(*replicas: int, leader: int | None = None, isr=None, **others) -> Partition:
    return Partition(
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=replicas[0] if leader is None else leader,
        directories=tuple(directory(replica) for replica in replicas),
        **others,
    )


def topic(number: int, name: str, *partitions: Partition) -> Topic:
    return Topic(number.to_bytes(16, "big"), name, Map(enumerate(partitions)))


def image(*parts) -> Image:
    topics = [part for part in parts if isinstance(part, Topic)]
    return Image(
        brokers=Map({part.id: part for part in parts if isinstance(part, Broker)}),
        controllers=Map({part.id: part for part in parts if isinstance(part, Controller)}),
        topics=Map({one.topic_id: one for one in topics}),
        topic_id_by_name=Map({one.name: one.topic_id for one in topics}),
    )
