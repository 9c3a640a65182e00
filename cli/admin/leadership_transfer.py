"""`kraftline quorum transfer-leader`: have the leader hand over to a voter. Kafka has no such tool.

The request is AlterPartitionReassignments of the metadata partition, with the new leader as first
replica and the same voters. Kafka's controllers know no topic of that name and refuse it (apache/
kafka: ReplicationControlManager.alterPartitionReassignment), as do those of older releases.
"""

from argparse import Namespace
from datetime import timedelta
from typing import Any, Final

from cli.admin.quorum_view import METADATA_TOPIC_NAME, QuorumView, describe_quorum
from cli.command import Output
from cli.connect import (
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Api,
    ClusterError,
    check,
    each_pair,
    error_text,
    json_line,
    newest,
)

ALTER_REASSIGNMENTS: Final = 45
TIMEOUT_MS: Final = 30_000
_UNKNOWN_TOPIC: Final = 3


def transfer_leader(api: Api, options: Namespace) -> Output:
    """Transfer the leadership to voter `to`, and wait until a new leader is known.

    Raises:
        ClusterError: it is no voter, or the leader refuses, or gives up, or another is elected.
    """
    is_controller = options.bootstrap_controller is not None
    view = describe_quorum(api, ENDPOINT_CONTROLLERS if is_controller else ENDPOINT_BROKERS)
    leader_id, epoch = int(view.partition.leader_id), int(view.partition.leader_epoch)
    voter_ids = sorted(int(state.replica_id) for state in view.partition.current_voters)
    if options.to not in voter_ids:
        voters = ", ".join(map(str, voter_ids))
        raise ClusterError(f"Node {options.to} is none of the voters: {voters}")
    if options.to == leader_id:
        return _said(options, view, f"node {leader_id} leads epoch {epoch} already")
    replicas = (options.to, *[voter_id for voter_id in voter_ids if voter_id != options.to])
    row = _asked(api, replicas, options.timeout)
    code, text = int(row.error_code), row.error_message
    if code == _UNKNOWN_TOPIC:
        raise ClusterError(
            f"Node {leader_id} leads epoch {epoch}, and cannot transfer that: it is Kafka's, or of "
            "an older release. Stop it to have another voter elected."
        )
    if code:
        raise ClusterError(_sentence(text) if text else error_text(code))
    return _said(options, view, text or f"node {options.to} leads")


def _asked(api: Api, replicas: tuple[int, ...], timeout_ms: int) -> Any:
    """Return the leader's answer about the metadata partition."""
    new = newest(ALTER_REASSIGNMENTS)
    partition = new.ReassignablePartition(partition_index=0, replicas=replicas)
    request = new.AlterPartitionReassignmentsRequest(
        timeout=timedelta(milliseconds=timeout_ms),
        allow_replication_factor_change=True,  # all that version 0 knows
        topics=(new.ReassignableTopic(name=METADATA_TOPIC_NAME, partitions=(partition,)),),
    )
    answer = check(api.call(ALTER_REASSIGNMENTS, request))
    rows = [row for _, row in each_pair(answer.responses)]
    if len(rows) != 1:
        raise ClusterError("the node did not answer about the metadata partition")
    return rows[0]


def _said(options: Namespace, view: QuorumView, text: str) -> Output:
    former_id, former_epoch = int(view.partition.leader_id), int(view.partition.leader_epoch)
    if options.json:
        return Output(
            json_line(
                {
                    "former_leader_id": former_id,
                    "former_leader_epoch": former_epoch,
                    "leader_id": options.to,
                    "message": text,
                }
            )
        )
    return Output(_sentence(text) + "\n")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
