"""Bodies of requests about partitions and their leaders, in kio's newest shape."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from typing_extensions import override

from jepsen.clients import CREATE_TOPICS, SERVER_TIMEOUT
from wire.messages.codec import newest

ELECT_LEADERS: Final = 43
ALTER_PARTITION_REASSIGNMENTS: Final = 45
PREFERRED: Final = 0


class TopicPartition(NamedTuple):
    """A partition; its text is the key of its operations."""

    topic: str
    number: int

    @override
    def __str__(self) -> str:
        """Kafka's notation."""
        return f"{self.topic}-{self.number}"


def create_logs(
    names: Sequence[str], partitions: int, replicas: int, configs: Mapping[str, str]
) -> Any:
    """Make a CreateTopics of equal topics."""
    request = newest(CREATE_TOPICS, "request")
    settings = tuple(
        request.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
    )
    topics = tuple(
        request.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=settings,
        )
        for name in names
    )
    return request.CreateTopicsRequest(topics=topics, timeout=SERVER_TIMEOUT, validate_only=False)


def reassign(replicas: Mapping[TopicPartition, Sequence[int]]) -> Any:
    """Make an AlterPartitionReassignments."""
    request = newest(ALTER_PARTITION_REASSIGNMENTS, "request")
    topics = tuple(
        request.ReassignableTopic(
            name=name,
            partitions=tuple(
                request.ReassignablePartition(
                    partition_index=key.number, replicas=tuple(replicas[key])
                )
                for key in sorted(replicas)
                if key.topic == name
            ),
        )
        for name in sorted({key.topic for key in replicas})
    )
    return request.AlterPartitionReassignmentsRequest(timeout=SERVER_TIMEOUT, topics=topics)


def elect_preferred(partitions: Sequence[TopicPartition]) -> Any:
    """Make an ElectLeaders of preferred leaders."""
    request = newest(ELECT_LEADERS, "request")
    topics = tuple(
        request.TopicPartitions(
            topic=name, partitions=tuple(key.number for key in partitions if key.topic == name)
        )
        for name in sorted({key.topic for key in partitions})
    )
    return request.ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=topics, timeout=SERVER_TIMEOUT
    )
