"""`kraftline quorum describe`: state of the metadata quorum (kafka-metadata-quorum's lines)."""

import sys
import time
from argparse import Namespace
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from cli.arguments import Parser, UsageError
from cli.client import Api, ClusterError, connections, error_text, parse_addresses
from wire import codec
from wire.types import METADATA_TOPIC_NAME

DESCRIBE_QUORUM: Final = 55
DESCRIBE_CLUSTER: Final = 60
ENDPOINT_BROKERS: Final = 1
ENDPOINT_CONTROLLERS: Final = 2
NOT_LEADER_OR_FOLLOWER: Final = 6
HEADINGS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


class QuorumView(msgspec.Struct, frozen=True):
    """What the leader of the metadata log says of its quorum."""

    cluster_id: str
    partition: Any
    """kio's PartitionData of DescribeQuorum."""
    nodes: tuple[Any, ...]


def run(arguments: Sequence[str]) -> int:
    """Prints the state of the quorum; returns the exit code."""
    options = _parse(arguments)
    if not (options.status or options.replication):
        sys.stderr.write(
            "One of --status or --replication must be specified with describe sub-command\n"
        )
        return 1
    try:
        view = _ask(options)
    except (ClusterError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.json:
        sys.stdout.write(msgspec.json.encode(as_object(view)).decode() + "\n")
    elif options.status:
        sys.stdout.write(status_text(view))
    else:
        now_ms = time.time_ns() // 1_000_000
        sys.stdout.write(replication_text(view, now_ms=now_ms if options.human_readable else None))
    return 0


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline quorum", "Describe the metadata quorum.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-server", help="brokers, HOST:PORT separated by commas")
    where.add_argument("--bootstrap-controller", help="controllers, HOST:PORT separated by commas")
    parser.add_argument("--command-config", help="accepted for compatibility; not read")
    parser.add_argument("command", choices=["describe"], help="what to do")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--status", "-s", action="store_true", help="a short summary")
    what.add_argument("--replication", "-re", "-r", action="store_true", help="all replicas")
    parser.add_argument("--human-readable", "-hr", action="store_true", help="times as ages")
    parser.add_argument("--json", action="store_true", help="one JSON object with everything")
    return parser.parse_args(arguments)


def _ask(options: Namespace) -> QuorumView:
    """Asks node after node: a controller that does not lead refuses, a broker forwards."""
    endpoint_type = ENDPOINT_CONTROLLERS if options.bootstrap_controller else ENDPOINT_BROKERS
    addresses = parse_addresses(options.bootstrap_controller or options.bootstrap_server)
    refusal: ClusterError | None = None
    for client in connections(addresses):
        try:
            return describe_quorum(client, endpoint_type)
        except ClusterError as error:
            refusal = error
    assert refusal is not None
    raise refusal


def describe_quorum(api: Api, endpoint_type: int) -> QuorumView:
    """The view of one node.

    Raises:
        ClusterError: the node refuses, for example because it does not lead.
    """
    cluster_request = codec.newest(DESCRIBE_CLUSTER, "request").DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=False,
    )
    cluster = api.call(DESCRIBE_CLUSTER, cluster_request)
    if int(cluster.error_code):
        raise ClusterError(error_text(cluster.error_code, cluster.error_message))
    module = codec.newest(DESCRIBE_QUORUM, "request")
    topic = module.TopicData(
        topic_name=METADATA_TOPIC_NAME, partitions=(module.PartitionData(partition_index=0),)
    )
    answer = api.call(DESCRIBE_QUORUM, module.DescribeQuorumRequest(topics=(topic,)))
    if int(answer.error_code):
        raise ClusterError(error_text(answer.error_code, answer.error_message))
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    if len(partitions) != 1:
        raise ClusterError("the node did not describe the metadata partition")
    if int(partitions[0].error_code):
        raise ClusterError(error_text(partitions[0].error_code, partitions[0].error_message))
    return QuorumView(str(cluster.cluster_id), partitions[0], answer.nodes)


def status_text(view: QuorumView) -> str:
    """The eight lines of `describe --status`."""
    lag, lag_time_ms = _worst_lag(view)
    voters = ", ".join(_voter(view, state) for state in view.partition.current_voters)
    observers = ", ".join(_node(state, ()) for state in view.partition.observers)
    lines = {
        "ClusterId": view.cluster_id,
        "LeaderId": view.partition.leader_id,
        "LeaderEpoch": view.partition.leader_epoch,
        "HighWatermark": view.partition.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_time_ms,
        "CurrentVoters": f"[{voters}]",
        "CurrentObservers": f"[{observers}]",
    }
    return "".join(f"{label + ':':<24}{value}\n" for label, value in lines.items())


def replication_text(view: QuorumView, *, now_ms: int | None) -> str:
    """The table of `describe --replication`; ages instead of instants when `now_ms` is given."""
    rows = [HEADINGS, *(_row(view, status, state, now_ms) for status, state in _replicas(view))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "".join(
        "".join(f"{text:<{width}}\t" for text, width in zip(row, widths, strict=True)) + "\n"
        for row in rows
    )


def as_object(view: QuorumView) -> dict[str, Any]:
    """Everything as one JSON value."""
    lag, lag_time_ms = _worst_lag(view)
    leader_end = _leader(view).log_end_offset
    return {
        "cluster_id": view.cluster_id,
        "leader_id": int(view.partition.leader_id),
        "leader_epoch": int(view.partition.leader_epoch),
        "high_watermark": int(view.partition.high_watermark),
        "follower_lag_max": lag,
        "follower_lag_ms_max": lag_time_ms,
        "replicas": [
            {
                "id": int(state.replica_id),
                "directory_id": _uuid(state.replica_directory_id),
                "status": status.lower(),
                "log_end_offset": int(state.log_end_offset),
                "lag": int(leader_end - state.log_end_offset),
                "last_fetch_ms": int(state.last_fetch_timestamp),
                "last_caught_up_ms": int(state.last_caught_up_timestamp),
                "endpoints": _endpoints(view, state),
            }
            for status, state in _replicas(view)
        ],
    }


def _replicas(view: QuorumView) -> list[tuple[str, Any]]:
    """(status, state) of every replica: the leader, then the voters, then the observers."""
    leader = _leader(view)
    followers = [state for state in view.partition.current_voters if state is not leader]
    return [
        ("Leader", leader),
        *(("Follower", state) for state in followers),
        *(("Observer", state) for state in view.partition.observers),
    ]


def _leader(view: QuorumView) -> Any:
    """The state of the leader; a leader that was removed from the voters is an observer."""
    states = (*view.partition.current_voters, *view.partition.observers)
    found = next((s for s in states if s.replica_id == view.partition.leader_id), None)
    if found is None:
        raise ClusterError(f"leader {view.partition.leader_id} is not among the replicas")
    return found


def _worst_lag(view: QuorumView) -> tuple[int, int]:
    """Offsets and time by which the slowest voter is behind; -1 for a time that is unknown."""
    leader = _leader(view)
    slowest = min(view.partition.current_voters, key=lambda state: state.log_end_offset)
    lag = int(leader.log_end_offset - slowest.log_end_offset)
    if slowest.replica_id == leader.replica_id:
        return lag, 0
    if min(leader.last_caught_up_timestamp, slowest.last_caught_up_timestamp) < 0:
        return lag, -1
    return lag, int(leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp)


def _row(view: QuorumView, status: str, state: Any, now_ms: int | None) -> tuple[str, ...]:
    return (
        str(int(state.replica_id)),
        _uuid(state.replica_directory_id),
        str(int(state.log_end_offset)),
        str(int(_leader(view).log_end_offset - state.log_end_offset)),
        _instant(int(state.last_fetch_timestamp), now_ms),
        _instant(int(state.last_caught_up_timestamp), now_ms),
        status,
    )


def _instant(timestamp_ms: int, now_ms: int | None) -> str:
    if timestamp_ms < 0 or now_ms is None:
        return str(timestamp_ms)
    return f"{max(0, now_ms - timestamp_ms)} ms ago"


def _voter(view: QuorumView, state: Any) -> str:
    return _node(state, _endpoints(view, state))


def _node(state: Any, endpoints: Sequence[str]) -> str:
    fields = [f'"id": {int(state.replica_id)}']
    if state.replica_directory_id is not None:
        fields.append(f'"directoryId": "{_uuid(state.replica_directory_id)}"')
    if endpoints:
        quoted = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
        fields.append(f'"endpoints": [{quoted}]')
    return "{" + ", ".join(fields) + "}"


def _endpoints(view: QuorumView, state: Any) -> list[str]:
    return [
        f"{listener.name}://{listener.host}:{int(listener.port)}"
        for node in view.nodes
        if node.node_id == state.replica_id
        for listener in node.listeners
    ]


def _uuid(value: UUID | None) -> str:
    content = bytes(16) if value is None else value.bytes
    return urlsafe_b64encode(content).rstrip(b"=").decode()
