"""`kraftline quorum`: state and voters of the metadata quorum (kafka-metadata-quorum's lines)."""

import time
from argparse import Namespace
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from cli.admin.elections import addresses, describe_elections
from cli.arguments import Parser, UsageError, check_bootstrap, integer
from cli.command import Output, execute
from cli.connect import (
    DESCRIBE_CLUSTER,
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Api,
    ClusterError,
    Connect,
    check,
    describe_cluster_request,
    error_text,
    json_line,
    newest,
    open_cluster,
)

DESCRIBE_QUORUM: Final = 55
ADD_VOTER: Final = 80
REMOVE_VOTER: Final = 81
METADATA_TOPIC_NAME: Final = "__cluster_metadata"
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
    """The metadata quorum as its leader describes it."""

    cluster_id: str
    partition: Any
    """kio's PartitionData of DescribeQuorum."""
    nodes: tuple[Any, ...]


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Perform one command on the quorum and return the exit code."""

    def connected(options: Namespace) -> AbstractContextManager[Api]:
        if _asks_for_elections(options):
            return nullcontext(cast("Api", None))  # over HTTP, by no Kafka request
        return connect(options)

    return execute(arguments, _parse, perform, connected)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline quorum", "Describe the metadata quorum, change its voters.")
    parser.bootstrap()
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    describing = commands.add_parser("describe")
    what = describing.add_mutually_exclusive_group()
    what.add_argument("--status", "-s", action="store_true", help="a short summary")
    what.add_argument("--replication", "-re", "-r", action="store_true", help="all replicas")
    what.add_argument(
        "--elections", action="store_true", help="elections with causes, of --inspection-server"
    )
    describing.add_argument(
        "--inspection-server",
        metavar="HOST:PORT,...",
        help="inspection listeners of nodes, each of which tells what it saw of the elections",
    )
    describing.add_argument("--human-readable", "-hr", action="store_true", help="times as ages")
    adding = commands.add_parser("add-controller")
    adding.add_argument("--dry-run", "-n", action="store_true", help="only say what would be done")
    removing = commands.add_parser("remove-controller")
    removing.add_argument("--controller-id", "-i", type=integer(), required=True)
    removing.add_argument("--controller-directory-id", "-d", type=_directory_id, required=True)
    removing.add_argument(
        "--dry-run", "-n", action="store_true", help="only say what would be done"
    )
    for command in (describing, adding, removing):
        command.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    if _asks_for_elections(options):
        if options.inspection_server is None:
            raise UsageError("--elections needs --inspection-server HOST:PORT,...")
        options.urls = addresses(options.inspection_server)
        return options
    check_bootstrap(options)
    if options.command == "describe" and not (options.status or options.replication):
        raise UsageError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if options.command == "add-controller" and not options.command_config:
        raise UsageError(
            "You must specify the configuration file of the controller to add with --command-config"
        )
    return options


def _asks_for_elections(options: Namespace) -> bool:
    return options.command == "describe" and bool(options.elections)


def _directory_id(text: str) -> bytes:
    try:
        content = urlsafe_b64decode(text + "==")
    except ValueError:
        content = b""
    if len(content) != 16 or len(text) != 22:
        raise UsageError(f"Failed to parse --controller-directory-id: '{text[:80]}' is not an id")
    return content


def perform(api: Api, options: Namespace) -> Output:
    """Perform the command of the options.

    Raises:
        ClusterError: the cluster refuses.
    """
    if options.command == "remove-controller":
        return _remove(api, options)
    if options.command == "add-controller":
        return _add(api, options)
    if _asks_for_elections(options):
        from cli.offline.metadata_sources import fetched  # noqa: PLC0415  # HTTP, of one flag alone

        return describe_elections(options.urls, as_json=options.json, fetch=fetched)
    is_controller = options.bootstrap_controller is not None
    view = describe_quorum(api, ENDPOINT_CONTROLLERS if is_controller else ENDPOINT_BROKERS)
    if options.json:
        return Output(json_line(as_object(view)))
    if options.status:
        return Output(status_text(view))
    now_ms = time.time_ns() // 1_000_000
    return Output(replication_text(view, now_ms=now_ms if options.human_readable else None))


def _remove(api: Api, options: Namespace) -> Output:
    directory = urlsafe_b64encode(options.controller_directory_id).rstrip(b"=").decode()
    what = f"KRaft controller {options.controller_id} with directory id {directory}"
    if options.dry_run:
        return _done(options, f"DRY RUN of removing  {what}")
    if not api.supports(REMOVE_VOTER):
        raise ClusterError(_STATIC.format(what="removing"))
    request = newest(REMOVE_VOTER).RemoveRaftVoterRequest(
        cluster_id=None,
        voter_id=options.controller_id,
        voter_directory_id=UUID(bytes=options.controller_directory_id),
    )
    check(api.call(REMOVE_VOTER, request))
    return _done(options, f"Removed  {what}")


_STATIC: Final = "Cluster doesn't support {what} voter because the kraft.version feature is 0"


def _add(api: Api, options: Namespace) -> Output:
    """Add the voter whose server.properties --command-config names."""
    node_id, directory, endpoints = _controller_of(Path(options.command_config))
    shown = urlsafe_b64encode(directory).rstrip(b"=").decode()
    listed = ", ".join(f"{name}://{host}:{port}" for name, host, port in endpoints)
    what = f"controller {node_id} with directory id {shown} and endpoints: {listed}"
    if options.dry_run:
        return _done(options, f"DRY RUN of adding {what}")
    if not api.supports(ADD_VOTER):
        raise ClusterError(_STATIC.format(what="adding"))
    module = newest(ADD_VOTER)
    request = module.AddRaftVoterRequest(
        cluster_id=None,
        timeout=timedelta(seconds=30),
        voter_id=node_id,
        voter_directory_id=UUID(bytes=directory),
        listeners=tuple(
            module.Listener(name=name, host=host, port=port) for name, host, port in endpoints
        ),
        ack_when_committed=True,
    )
    check(api.call(ADD_VOTER, request))
    return _done(options, f"Added {what}")


def _controller_of(path: Path) -> tuple[int, bytes, list[tuple[str, str, int]]]:
    """(node id, directory id, controller listeners) from a controller's server.properties."""
    from cli.admin.controller_properties import controller_of  # noqa: PLC0415  # reads node configs

    return controller_of(path)


def _done(options: Namespace, line: str) -> Output:
    return Output(json_line({"done": line}) if options.json else f"{line}\n")


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


def status_text(view: QuorumView) -> str:
    """The eight output lines of `describe --status`."""
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
    """The whole view as one JSON value."""
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
    """Lag of the slowest voter in offsets and in ms; -1 for an unknown time."""
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
