"""The metadata quorum as its leader describes it: DescribeQuorum."""

from typing import Any, Final

import msgspec

from cli.connect import (
    DESCRIBE_CLUSTER,
    Api,
    ClusterError,
    check,
    describe_cluster_request,
    error_text,
    newest,
)

DESCRIBE_QUORUM: Final = 55
METADATA_TOPIC_NAME: Final = "__cluster_metadata"


class QuorumView(msgspec.Struct, frozen=True):
    """The metadata quorum as its leader describes it."""

    cluster_id: str
    partition: Any
    """kio's PartitionData of DescribeQuorum."""
    nodes: tuple[Any, ...]

    @property
    def leader(self) -> Any:
        """The state of the leader; a leader that was removed from the voters is an observer.

        Raises:
            ClusterError: it is neither.
        """
        states = (*self.partition.current_voters, *self.partition.observers)
        found = next((s for s in states if s.replica_id == self.partition.leader_id), None)
        if found is None:
            raise ClusterError(f"leader {self.partition.leader_id} is not among the replicas")
        return found


def describe_quorum(api: Api, endpoint_type: int) -> QuorumView:
    """Describe the quorum by a request to one node.

    Raises:
        ClusterError: the node refuses, for example because it is not the leader.
    """
    cluster = check(api.call(DESCRIBE_CLUSTER, describe_cluster_request(endpoint_type)))
    module = newest(DESCRIBE_QUORUM)
    topic = module.TopicData(
        topic_name=METADATA_TOPIC_NAME, partitions=(module.PartitionData(partition_index=0),)
    )
    answer = check(api.call(DESCRIBE_QUORUM, module.DescribeQuorumRequest(topics=(topic,))))
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    if len(partitions) != 1:
        raise ClusterError("the node did not describe the metadata partition")
    if int(partitions[0].error_code):
        raise ClusterError(error_text(partitions[0].error_code, partitions[0].error_message))
    return QuorumView(str(cluster.cluster_id), partitions[0], answer.nodes)
