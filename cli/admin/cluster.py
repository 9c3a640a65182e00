"""`kraftline cluster`: cluster id, endpoints, unregistering (kafka-cluster's lines, exit codes)."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from cli.arguments import Parser, check_bootstrap, integer
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
    json_line,
    newest,
    open_cluster,
)

UNREGISTER_BROKER: Final = 64


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Perform one command on the cluster and return the exit code."""
    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline cluster", "Id and nodes of a cluster.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for name in ("cluster-id", "unregister", "list-endpoints"):
        command = commands.add_parser(name)
        command.bootstrap()
        command.add_argument(
            "--config", "-c", dest="admin_config", metavar="FILE", help="as --command-config"
        )
        command.add_argument("--json", action="store_true", help="one JSON object")
    commands.choices["unregister"].add_argument("--id", "-i", type=integer(), required=True)
    commands.choices["list-endpoints"].add_argument(
        "--include-fenced-brokers", action="store_true", help="fenced brokers too"
    )
    options = parser.parse_args(arguments)
    check_bootstrap(options)
    return options


def perform(api: Api, options: Namespace) -> Output:
    """Perform the command of the options.

    Raises:
        ClusterError: the cluster refuses.
    """
    if options.command == "unregister":
        request = newest(UNREGISTER_BROKER).UnregisterBrokerRequest(broker_id=options.id)
        check(api.call(UNREGISTER_BROKER, request))
        if options.json:
            return Output(json_line({"unregistered": options.id}))
        return Output(f"Broker {options.id} is no longer registered.\n")
    answer = _described(api, options)
    if options.command == "cluster-id":
        if options.json:
            return Output(json_line({"cluster_id": answer.cluster_id}))
        return Output(f"Cluster ID: {answer.cluster_id}\n")
    return Output(_endpoints(answer, options))


def _described(api: Api, options: Namespace) -> Any:
    is_controller = options.bootstrap_controller is not None
    fenced = getattr(options, "include_fenced_brokers", False)
    if is_controller and fenced:
        raise ClusterError(
            "The option --include-fenced-brokers is only supported with --bootstrap-server option"
        )
    kind = ENDPOINT_CONTROLLERS if is_controller else ENDPOINT_BROKERS
    request = describe_cluster_request(kind, include_fenced=fenced)
    return check(api.call(DESCRIBE_CLUSTER, request))


def _endpoints(answer: Any, options: Namespace) -> str:
    nodes = sorted(answer.brokers, key=lambda node: int(node.broker_id))
    kind = "controller" if options.bootstrap_controller is not None else "broker"
    if options.json:
        return json_line({
            "type": kind,
            "nodes": [
                {"id": int(n.broker_id), "host": n.host, "port": int(n.port), "rack": n.rack,
                 "fenced": bool(n.is_fenced)}
                for n in nodes
            ],
        })  # fmt: skip
    host_width = max((len(str(node.host)) for node in nodes), default=_HOST_WIDTH)
    is_broker = kind == "broker"
    racks = [len(str(node.rack)) for node in nodes if node.rack]
    rack_width = max(racks, default=_RACK_WIDTH)
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (str(int(n.broker_id)), str(n.host), str(int(n.port)), str(n.rack or "null"),
         "fenced" if n.is_fenced else "unfenced", kind)
        for n in nodes
    ]  # fmt: skip
    lines = []
    for number, host, port, rack, state, role in rows:
        state_column = f"{state:<10} " if is_broker else ""
        lines.append(
            f"{number:<10} {host:<{host_width}} {port:<10} {rack:<{rack_width}} {state_column}"
            f"{role:<15}\n"
        )
    return "".join(lines)


_HOST_WIDTH: Final = 100
_RACK_WIDTH: Final = 10
