"""`kraftline quorum`: state and voters of the metadata quorum (kafka-metadata-quorum's lines)."""

import time
from argparse import Namespace
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from cli.admin.elections import addresses, describe_elections
from cli.admin.leadership_transfer import TIMEOUT_MS, transfer_leader
from cli.admin.quorum_view import QuorumView, describe_quorum
from cli.arguments import INT32_MAX, Parser, UsageError, check_bootstrap, integer, shortened
from cli.command import Output, execute
from cli.connect import (
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Api,
    Connect,
    json_line,
    open_cluster,
)
from cli.directory_ids import parse_directory_id

HEADINGS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Perform one command on the quorum and return the exit code."""

    def connected(options: Namespace) -> AbstractContextManager[Api]:
        if _asks_for_elections(options):
            return nullcontext(cast("Api", None))  # over HTTP, by no Kafka request
        return connect(options)

    return execute(arguments, _parse, perform, connected)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline quorum", "Describe the metadata quorum, change voters or leader.")
    parser.bootstrap()
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    describing = commands.add_parser("describe")
    describing.add_argument("--status", "-s", action="store_true", help="a short summary")
    describing.add_argument("--replication", "-re", "-r", action="store_true", help="all replicas")
    describing.add_argument(
        "--elections", action="store_true", help="elections with causes, of --inspection-server"
    )
    describing.add_argument(
        "--inspection-server",
        metavar="HOST:PORT,...",
        help="inspection listeners of nodes, each of which tells what it saw of the elections",
    )
    describing.add_argument("--human-readable", "-hr", action="store_true", help="times as ages")
    adding = commands.add_parser("add-controller")
    adding.add_argument(
        "--no-probe", action="store_true", help="do not try the endpoints of the controller first"
    )
    removing = commands.add_parser("remove-controller")
    removing.add_argument(
        "--controller-id", "-i", type=integer(-INT32_MAX - 1), required=True, help="of the voter"
    )
    removing.add_argument("--controller-directory-id", "-d", required=True, help="of the voter")
    transferring = commands.add_parser("transfer-leader")
    transferring.add_argument(
        "--to", type=integer(0, INT32_MAX), required=True, help="id of the voter that is to lead"
    )
    transferring.add_argument(
        "--timeout", type=integer(1, INT32_MAX), default=TIMEOUT_MS,
        help="ms until the leader gives up at the latest; 30000, and the election time-out at most",
    )  # fmt: skip
    for command in (adding, removing):
        command.add_argument(
            "--dry-run",
            "-n",
            action="store_true",
            help="only say what would be done, and what blocks it (then the exit code is 1)",
        )
    for command in (describing, adding, removing, transferring):
        command.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    if _asks_for_elections(options):
        if options.status or options.replication:
            raise UsageError(
                "Only one of --status, --replication or --elections should be specified with "
                "describe sub-command"
            )
        if options.inspection_server is None:
            raise UsageError("--elections needs --inspection-server HOST:PORT,...")
        options.urls = addresses(options.inspection_server)
        return options
    check_bootstrap(options)
    _check(options)
    return options


def _asks_for_elections(options: Namespace) -> bool:
    return options.command == "describe" and bool(options.elections)


def _check(options: Namespace) -> None:
    """Refuse what is decided without the cluster; parse the voter that is added or removed."""
    file = options.command_config
    if file is not None and not _is_there(file):
        raise UsageError(f"Properties file {shortened(file)} does not exists!")
    if options.command == "describe":
        _check_description(options)
    elif options.command == "transfer-leader":
        return
    elif options.command == "add-controller":
        if file is None:
            raise UsageError(
                "You must supply the configuration file of the controller you are adding when "
                "using add-controller."
            )
        from cli.admin.controller_properties import controller_of  # noqa: PLC0415  # reads folders

        options.controller = controller_of(Path(file))
    else:
        if options.controller_id < 0:
            raise UsageError(f"Invalid negative --controller-id: {options.controller_id}")
        try:
            found = parse_directory_id(options.controller_directory_id)
        except ValueError as error:
            raise UsageError(f"Failed to parse --controller-directory-id: {error}") from error
        options.controller_directory_id = found


def _is_there(file: str) -> bool:
    try:
        return Path(file).exists()
    except OSError:  # no name that a file could have
        return False


def _check_description(options: Namespace) -> None:
    if options.status and options.replication:
        raise UsageError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not (options.status or options.replication):
        raise UsageError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if options.status and options.human_readable:
        raise UsageError("The option --human-readable is only supported along with --replication")


def perform(api: Api, options: Namespace) -> Output:
    """Perform the command of the options.

    Raises:
        ClusterError: the cluster refuses.
    """
    if options.command == "transfer-leader":
        return transfer_leader(api, options)
    if options.command != "describe":
        return _change_voters(api, options)
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


def _change_voters(api: Any, options: Namespace) -> Output:
    from cli.admin import voter_changes  # noqa: PLC0415  # describing does without

    if options.command == "add-controller":
        return voter_changes.add_controller(api, options)
    return voter_changes.remove_controller(api, options)


def status_text(view: QuorumView) -> str:
    """The eight output lines of `describe --status`."""
    lag, lag_time_ms = _worst_lag(view)
    voters = ", ".join(_node(view, state) for state in view.partition.current_voters)
    observers = ", ".join(_node(view, state) for state in view.partition.observers)
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
    leader_end = view.leader.log_end_offset
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
    leader = view.leader
    followers = [state for state in view.partition.current_voters if state is not leader]
    return [
        ("Leader", leader),
        *(("Follower", state) for state in followers),
        *(("Observer", state) for state in view.partition.observers),
    ]


def _worst_lag(view: QuorumView) -> tuple[int, int]:
    """Lag of the slowest voter in offsets and in ms; -1 for an unknown time."""
    leader = view.leader
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
        str(int(view.leader.log_end_offset - state.log_end_offset)),
        _instant(int(state.last_fetch_timestamp), now_ms),
        _instant(int(state.last_caught_up_timestamp), now_ms),
        status,
    )


def _instant(timestamp_ms: int, now_ms: int | None) -> str:
    if timestamp_ms < 0 or now_ms is None:
        return str(timestamp_ms)
    return f"{max(0, now_ms - timestamp_ms)} ms ago"


def _node(view: QuorumView, state: Any) -> str:
    fields = [f'"id": {int(state.replica_id)}']
    if state.replica_directory_id is not None:
        fields.append(f'"directoryId": "{_uuid(state.replica_directory_id)}"')
    endpoints = _endpoints(view, state)
    if endpoints:
        quoted = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
        fields.append(f'"endpoints": [{quoted}]')
    return "{" + ", ".join(fields) + "}"


def _endpoints(view: QuorumView, state: Any) -> list[str]:
    return [
        f"{listener.name}://{_host(str(listener.host))}:{int(listener.port)}"
        for node in view.nodes
        if node.node_id == state.replica_id
        for listener in node.listeners
    ]


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _uuid(value: UUID | None) -> str:
    content = bytes(16) if value is None else value.bytes
    return urlsafe_b64encode(content).rstrip(b"=").decode()
