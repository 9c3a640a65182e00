"""The voters that a dynamic quorum starts with: `--initial-controllers`, `--standalone`.

Source: KIP-853; apache/kafka: raft/.../DynamicVoters.java, DynamicVoter.java,
core/.../StorageTool.scala (`createStandaloneDynamicVoters`), 4.3.
"""

import re
from argparse import Namespace
from collections.abc import Callable
from typing import Final

from cli.arguments import INT32_MAX, UsageError
from cli.directory_ids import parse_directory_id
from kernel.config import NodeConfig
from raft.membership.voters import Voter, VoterSet, voter_set
from storage.log_dir.meta_properties import RESERVED_DIRECTORY_IDS
from wire.types import DirectoryId, Endpoint, NodeId, ReplicaKey

PORT_MAX: Final = 65535
KRAFT_VERSION_RANGE: Final = (0, 1)
"""Range of kraft.version that Kafka's tool writes for each voter; the voter corrects its own."""
NO_VOTERS: Final = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the "
    "following: --standalone, --initial-controllers, or --no-initial-controllers."
)
STATIC_VOTERS: Final = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
    "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and "
    "specify controller.quorum.bootstrap.servers instead."
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def asked_voters(
    options: Namespace, config: NodeConfig, new_uuid: Callable[[], bytes]
) -> VoterSet | None:
    """The voters of a new dynamic quorum; None for static ones and for a node that joins one.

    Raises:
        UsageError: the flags do not fit the configuration.
    """
    is_initial = options.initial_controllers is not None or options.standalone
    if config.voters and is_initial:
        raise UsageError(STATIC_VOTERS)
    if options.initial_controllers is not None:
        return initial_controllers(options.initial_controllers, config.controller_listener_names[0])
    if options.standalone:
        return standalone_voters(config, new_uuid)
    if config.is_controller and not (config.voters or options.no_initial_controllers):
        raise UsageError(NO_VOTERS)
    return None


def initial_controllers(text: str, listener: str) -> VoterSet:
    """The voters of `ID@HOST:PORT:DIRECTORY_ID,...`; empty entries are skipped.

    Args:
        text: value of the flag.
        listener: name of the controller listener that every voter is given.

    Raises:
        UsageError: with Kafka's text; also a host, a directory id or an id of two voters that no
            node could start with, which Kafka's tool writes.
    """
    voters = [_voter(entry.strip(), listener) for entry in text.strip().split(",") if entry]
    if not voters:
        raise UsageError("No voters given.")
    seen: dict[NodeId | DirectoryId | None, NodeId] = {}
    for voter in voters:
        voter_id, directory_id = voter.key.id, voter.key.directory_id
        if voter_id in seen:
            raise UsageError(f"Node id {voter_id} was specified more than once.")
        if directory_id in seen:
            raise UsageError(
                f"Node ids {seen[directory_id]} and {voter_id} have the same directory ID "
                "in dynamic voter string."
            )
        seen[voter_id] = seen[directory_id] = voter_id
    return voter_set(tuple(voters))


def standalone_voters(config: NodeConfig, new_uuid: Callable[[], bytes]) -> VoterSet:
    """This controller as the only voter, at its first advertised controller listener.

    Raises:
        UsageError: the node is no controller.
    """
    if not config.is_controller:
        raise UsageError("You can only use --standalone on a controller.")
    advertised = config.advertised_controller_listeners
    assert advertised, f"a controller has a controller listener: {config.listeners=}"
    key = ReplicaKey(config.node_id, DirectoryId(new_uuid()))
    return voter_set((Voter(key, (advertised[0],), *KRAFT_VERSION_RANGE),))


def _voter(entry: str, listener: str) -> Voter:
    number, separator, rest = entry.partition("@")
    if not separator:
        raise UsageError("No @ found in dynamic voter string.")
    if not number:
        raise UsageError("Invalid @ at beginning of dynamic voter string.")
    if _NUMBER.fullmatch(number) is None or not -INT32_MAX - 1 <= int(number) <= INT32_MAX:
        raise UsageError("Failed to parse node id in dynamic voter string.")
    node_id = NodeId(int(number))
    if node_id < 0:
        raise UsageError(f"Invalid negative node id {node_id} in dynamic voter string.")
    host, rest = _host(rest)
    digits, separator, directory = rest.partition(":")
    if not separator:
        raise UsageError("No colon following port could be found.")
    if _NUMBER.fullmatch(digits) is None or not -INT32_MAX - 1 <= int(digits) <= INT32_MAX:
        raise UsageError("Failed to parse port in dynamic voter string.")
    port = int(digits)
    if not 0 <= port <= PORT_MAX:
        raise UsageError(f"Invalid port {port} in dynamic voter string.")
    key = ReplicaKey(node_id, _directory_id(directory))
    return Voter(key, (Endpoint(listener, host, port),), *KRAFT_VERSION_RANGE)


def _host(text: str) -> tuple[str, str]:
    """The host, in brackets if it has colons, and what follows the colon behind it."""
    if not text:
        raise UsageError("No hostname found after node id.")
    if text.startswith("["):
        host, separator, rest = text[1:].partition("]")
        if not separator:
            raise UsageError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise UsageError("Port section must start with a colon.")
        rest = rest[1:]
    else:
        host, separator, rest = text.partition(":")
        if not separator:
            raise UsageError("No colon following hostname could be found.")
    if not host:  # Kafka takes it for this machine, which is another one on each node
        raise UsageError("No hostname found after node id.")
    return host, rest


def _directory_id(text: str) -> DirectoryId:
    try:
        directory_id = DirectoryId(parse_directory_id(text))
    except ValueError as error:
        raise UsageError("Failed to parse directory ID in dynamic voter string.") from error
    if directory_id in RESERVED_DIRECTORY_IDS:
        raise UsageError(f"Invalid reserved directory ID {text} in dynamic voter string.")
    return directory_id
