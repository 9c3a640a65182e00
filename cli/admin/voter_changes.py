"""Changes of the quorum's voters (KIP-853): add-controller, remove-controller; what blocks them.

Kafka's leader judges a change when it is asked. Before a controller is added, each of its endpoints
is tried from here: the leader tries the first alone, and voters that cannot be reached elect nobody
(KAFKA-20661). `--dry-run` also says what the leader would refuse, or could not commit.
Source: apache/kafka: raft/.../internals/{AddVoterHandler,RemoveVoterHandler}.java,
tools/.../MetadataQuorumCommand.java, 4.3.
"""

from argparse import Namespace
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from cli.admin.controller_properties import ControllerToAdd
from cli.admin.quorum_view import QuorumView, describe_quorum
from cli.command import Output
from cli.connect import (
    DESCRIBE_CLUSTER,
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Api,
    ClusterError,
    check,
    describe_cluster_request,
    json_line,
    newest,
)

API_VERSIONS: Final = 18
DESCRIBE_CONFIGS: Final = 32
ADD_VOTER: Final = 80
REMOVE_VOTER: Final = 81
ADD_TIMEOUT: Final = timedelta(seconds=30)
FETCH_AGE_MS_MAX: Final = 10_000
"""Age of a replica's last fetch up to which it is counted as one that follows; Kafka's leader
resigns after 3 s without a majority of them, with the default fetch time-out."""
CAUGHT_UP_AGE_MS_MAX: Final = 60 * 60 * 1000
"""Age up to which the leader takes a replica for caught up (LeaderState.isReplicaCaughtUp)."""
_ANY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104
_KRAFT_VERSION: Final = "kraft.version"
_STATIC: Final = "Cluster doesn't support {what} voter because the kraft.version feature is 0"
_MISMATCHED_ENDPOINT: Final = 114
_INVALID_REQUEST: Final = 42
_BROKER_RESOURCE: Final = 4


class VoterApi(Api, Protocol):
    """Calls to the cluster, and to a node that is not of it yet."""

    def ask(self, address: tuple[str, int], api_key: int, body: Any) -> Any:
        """Return the response of the node at an address, over a connection of its own.

        Raises:
            ClusterError: no answer.
        """
        ...


def remove_controller(api: VoterApi, options: Namespace) -> Output:
    """Remove a voter, or say what blocks that.

    Raises:
        ClusterError: the cluster refuses.
    """
    voter = options.controller_id, options.controller_directory_id
    what = f"KRaft controller {voter[0]} with directory id {_encoded(voter[1])}"
    if options.dry_run:
        blocked = _blocks_removal(api, options, voter)
        return _said(options, f"DRY RUN of removing  {what}", blocked)
    if not api.supports(REMOVE_VOTER):
        raise ClusterError(_STATIC.format(what="removing"))
    request = newest(REMOVE_VOTER).RemoveRaftVoterRequest(
        cluster_id=None, voter_id=voter[0], voter_directory_id=UUID(bytes=voter[1])
    )
    check(api.call(REMOVE_VOTER, request))
    return _said(options, f"Removed  {what}")


def add_controller(api: VoterApi, options: Namespace) -> Output:
    """Add the controller of the options as a voter, or say what blocks that.

    Raises:
        ClusterError: an endpoint of it cannot be used, or the cluster refuses.
    """
    added: ControllerToAdd = options.controller
    listed = ", ".join(map(str, added.endpoints))
    shown = _encoded(added.directory_id)
    what = f"controller {added.node_id} with directory id {shown} and endpoints: {listed}"
    unusable = [] if options.no_probe else list(_unusable_endpoints(api, options, added))
    if options.dry_run:
        blocked = [*_blocks_addition(api, options, added), *unusable]
        return _said(options, f"DRY RUN of adding {what}", blocked)
    if unusable:
        raise ClusterError(
            f"Controller {added.node_id} is not added: {'; '.join(unusable)} "
            "(--no-probe: it is added all the same)"
        )
    if not api.supports(ADD_VOTER):
        raise ClusterError(_STATIC.format(what="adding"))
    module = newest(ADD_VOTER)
    request = module.AddRaftVoterRequest(
        cluster_id=None,
        timeout=ADD_TIMEOUT,
        voter_id=added.node_id,
        voter_directory_id=UUID(bytes=added.directory_id),
        listeners=tuple(
            module.Listener(name=each.listener, host=each.host, port=each.port)
            for each in added.endpoints
        ),
        ack_when_committed=True,
    )
    check(api.call(ADD_VOTER, request))
    return _said(options, f"Added {what}")


def _said(options: Namespace, line: str, blocked: Iterable[str] = ()) -> Output:
    reasons = list(blocked)
    code = 1 if reasons else 0
    if options.json:
        answer = {"done": line, "blocked": reasons} if options.dry_run else {"done": line}
        return Output(json_line(answer), exit_code=code)
    return Output(f"{line}\n", "".join(f"blocked: {reason}\n" for reason in reasons), code)


# ---- endpoints -----------------------------------------------------------------------------------


def _unusable_endpoints(api: VoterApi, options: Namespace, added: ControllerToAdd) -> Iterator[str]:
    """Yield why an endpoint would not do for the other voters, one line for each that would not."""
    cluster = check(api.call(DESCRIBE_CLUSTER, describe_cluster_request(_kind(options))))
    level = _kraft_version(check(api.call(API_VERSIONS, _versions_request())))
    for endpoint in added.endpoints:
        if endpoint.host in _ANY_ADDRESS:
            yield f"{endpoint} is no address for other nodes: set advertised.listeners"
            continue
        address = endpoint.host, endpoint.port
        try:
            reason = _other_node(api, address, str(cluster.cluster_id), added.node_id)
            reason = reason or _other_level(api, address, level)
        except ClusterError as error:
            reason = f"does not answer: {error}"
        if reason is not None:
            yield f"{endpoint} {reason}"


def _other_node(
    api: VoterApi, address: tuple[str, int], cluster_id: str, node_id: int
) -> str | None:
    """Return why the node at an address is not the controller of that id; None if it may be."""
    request = describe_cluster_request(ENDPOINT_CONTROLLERS)
    answer = api.ask(address, DESCRIBE_CLUSTER, request)
    if int(answer.error_code) == _MISMATCHED_ENDPOINT:
        return "is no listener of controllers"
    if str(check(answer).cluster_id) != cluster_id:
        return f"is of cluster {answer.cluster_id}, not of {cluster_id}"
    # A node tells its own configuration alone: the one question that it answers by its id.
    module = newest(DESCRIBE_CONFIGS)
    resource = module.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=("node.id",)
    )
    asked = module.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=False, include_documentation=False
    )
    (result,) = api.ask(address, DESCRIBE_CONFIGS, asked).results
    if int(result.error_code) == _INVALID_REQUEST:
        return f"is of another node: {result.error_message}"
    return None


def _other_level(api: VoterApi, address: tuple[str, int], level: int) -> str | None:
    """Return why the node at an address supports no such kraft.version; None if it does."""
    answer = check(api.ask(address, API_VERSIONS, _versions_request()))
    rows = {str(row.name): row for row in answer.supported_features}
    row = rows.get(_KRAFT_VERSION)
    lowest, highest = (0, 0) if row is None else (int(row.min_version), int(row.max_version))
    if lowest <= level <= highest:
        return None
    return f"supports {_KRAFT_VERSION} {lowest} to {highest}, not {level} as the cluster has it"


# ---- the quorum ----------------------------------------------------------------------------------


def _blocks_addition(api: VoterApi, options: Namespace, added: ControllerToAdd) -> Iterator[str]:
    if not _is_dynamic(api):
        yield _STATIC.format(what="adding")
        return
    view = describe_quorum(api, _kind(options))
    yield from _blocks_any(view)
    voters = view.partition.current_voters
    key = _key(added.node_id, added.directory_id)
    if any(int(voter.replica_id) == added.node_id for voter in voters):
        shown = _keys(voters)
        yield f"The voter id for {key} is already part of the set of voters {shown}."
        return
    directory_id = UUID(bytes=added.directory_id)
    observer = next(
        (
            state
            for state in view.partition.observers
            if (int(state.replica_id), state.replica_directory_id) == (added.node_id, directory_id)
        ),
        None,
    )
    if observer is None:
        yield f"{key} does not fetch from the leader: it is started as an observer first"
    elif not _is_within(view, observer.last_caught_up_timestamp, CAUGHT_UP_AGE_MS_MAX):
        yield f"{key} is lagging behind by {_lag(view, observer)} offsets"
    follow = [*voters, *(() if observer is None else (observer,))]
    yield from _blocks_commit(view, follow, len(voters) + 1)


def _blocks_removal(api: VoterApi, options: Namespace, voter: tuple[int, bytes]) -> Iterator[str]:
    if not _is_dynamic(api):
        yield _STATIC.format(what="removing")
        return
    view = describe_quorum(api, _kind(options))
    yield from _blocks_any(view)
    voters = view.partition.current_voters
    removed = voter[0], UUID(bytes=voter[1])
    kept = [s for s in voters if (int(s.replica_id), s.replica_directory_id) != removed]
    if len(kept) == len(voters) or not kept:  # the last voter is not "found" either
        yield f"Cannot remove voter {_key(*voter)} from the set of voters {_keys(voters)}"
        return
    yield from _blocks_commit(view, kept, len(kept))


def _blocks_any(view: QuorumView) -> Iterator[str]:
    if int(view.partition.high_watermark) < 0:
        yield (
            "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        )


def _blocks_commit(view: QuorumView, replicas: Iterable[Any], count: int) -> Iterator[str]:
    """The change is committed by a majority of the new voters: say if too few of them fetch."""
    following = [s for s in replicas if _is_within(view, s.last_fetch_timestamp, FETCH_AGE_MS_MAX)]
    majority = count // 2 + 1
    if len(following) < majority:
        ids = ", ".join(str(int(state.replica_id)) for state in following)
        yield (
            f"of the {count} voters that there would be only {len(following)} ({ids}) fetched in "
            f"the last {FETCH_AGE_MS_MAX // 1000} s: the change needs {majority} to be committed"
        )


def _is_within(view: QuorumView, timestamp_ms: int, age_ms_max: int) -> bool:
    """True if a time of a replica is at most that old, by the clock of the leader.

    -1 is never; a node of Kafka before 3.3 tells -1 of all, the leader too: all are within.
    """
    now_ms = int(view.leader.last_fetch_timestamp)
    return now_ms - int(timestamp_ms) <= age_ms_max


def _lag(view: QuorumView, state: Any) -> int:
    return int(view.leader.log_end_offset - state.log_end_offset)


def _is_dynamic(api: VoterApi) -> bool:
    """True if the voters of the cluster are records: kraft.version is finalized at 1 or more."""
    return _kraft_version(check(api.call(API_VERSIONS, _versions_request()))) > 0


def _kraft_version(versions: Any) -> int:
    """Return the level that is finalized; 0 is not told."""
    levels = {str(row.name): int(row.max_version_level) for row in versions.finalized_features}
    return levels.get(_KRAFT_VERSION, 0)


def _versions_request() -> Any:
    return newest(API_VERSIONS).ApiVersionsRequest(
        client_software_name="kraftline-cli", client_software_version="1"
    )


def _kind(options: Namespace) -> int:
    is_controller = options.bootstrap_controller is not None
    return ENDPOINT_CONTROLLERS if is_controller else ENDPOINT_BROKERS


def _key(node_id: int, directory_id: bytes) -> str:
    return f"ReplicaKey(id={node_id}, directoryId={_encoded(directory_id)})"


def _keys(voters: Iterable[Any]) -> str:
    """The voters as Kafka prints them, ascending by id; Kafka's order is that of a hash map."""
    ordered = sorted(voters, key=lambda state: int(state.replica_id))
    keys = [_key(int(s.replica_id), (s.replica_directory_id or UUID(int=0)).bytes) for s in ordered]
    return f"[{', '.join(keys)}]"


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
