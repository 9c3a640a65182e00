"""Registration, heartbeats and the states of brokers.

A broker is fenced (registered but not serving), unfenced, in controlled shutdown, or allowed to
shut down now. `registration_offset` is the offset of its registration in the log: only a broker
that has read up to it is unfenced. Broker epoch = offset of the first record of the registering
batch.
Source: apache/kafka: metadata/.../controller/{ClusterControlManager,BrokerHeartbeatManager}.java.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from metadata.features import (
    LEVEL_CONTROLLED_SHUTDOWN,
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    LEVEL_REGISTRATION_CHANGE,
)
from metadata.image import Broker, Image
from metadata.records import (
    REGISTRATION_IN_CONTROLLED_SHUTDOWN,
    REGISTRATION_UNFENCE,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from quorum_controller.bodies import (
    NO_TIME,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    to_bytes,
)
from quorum_controller.brokers.controllers import registered_endpoints
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.brokers.sweeps import (
    Sweep,
    SweepKind,
    removal_records,
    sweep_slice,
)
from quorum_controller.features import supported_features, unsupported_feature
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.partition_change import Target, change_record
from quorum_controller.partitions.partition_index import Electorate, PartitionIndex
from quorum_controller.result import RECORDS_PER_SLICE_MAX, Draft
from quorum_controller.services import Services
from wire.errors import ApiError, ErrorCode
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, DirectoryId, NodeId, Offset

_SECURITY_PROTOCOLS: Final = range(4)  # PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
_RESERVED_DIRECTORIES: Final = 100
_PORT_MAX: Final = 65_535


class BrokerState(Enum):
    """The state of a broker in the state machine of heartbeats."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


# --- registration -------------------------------------------------------------------------------


def register_broker(
    draft: Draft, request: BrokerRegistrationRequest, services: Services
) -> HandlerResult | ApiError:
    """Register a new incarnation or amend the registration of the same one.

    A new incarnation is first removed from every ISR: its log may lack records of the old one. With
    ELR it is removed from every ELR too, unless it proves a clean shutdown by the epoch of the old
    incarnation. If that takes more records than one slice, the old incarnation is fenced in slices
    and the broker has to retry.

    Returns:
        Error codes: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (the other incarnation
        has a valid session), BROKER_ID_NOT_REGISTERED (ZooKeeper broker), INVALID_REGISTRATION
        (directories, listeners), UNSUPPORTED_VERSION (features), REQUEST_TIMED_OUT (retry).
    """
    broker_id = NodeId(request.broker_id)
    existing = draft.image.brokers.get(broker_id)
    incarnation_id = to_bytes(request.incarnation_id)
    liveness, now_ms = services.liveness, services.now_ms
    cluster_id = services.config.cluster_id
    error = _registration_error(draft.image, request, liveness, cluster_id, now_ms)
    if error is not None:
        return HandlerResult(broker_registration_error(request, error))
    is_amended = existing is not None and existing.incarnation_id == incarnation_id
    if existing is not None and not is_amended:
        is_clean = BrokerEpoch(request.previous_broker_epoch) == existing.epoch
        kind = SweepKind.FENCE if is_clean else SweepKind.UNCLEAN_SHUTDOWN
        sweep = Sweep(kind, existing)
        removals = removal_records(draft.image, sweep, services.electorate)
        if len(removals) >= RECORDS_PER_SLICE_MAX:
            retry = ApiError(ErrorCode.request_timed_out)
            return HandlerResult(broker_registration_error(request, retry), sweep)
        for removal in removals:
            draft.emit(removal)
    epoch = BrokerEpoch(draft.base_offset)
    record = _registration_record(draft.image, request, epoch)
    if existing is not None and is_amended:
        record = msgspec.structs.replace(
            record,
            broker_epoch=existing.epoch,
            fenced=existing.fenced,
            in_controlled_shutdown=existing.in_controlled_shutdown,
        )
    draft.emit(record)
    liveness.register(draft.image.brokers[broker_id], now_ms)
    return HandlerResult(
        BrokerRegistrationResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, broker_epoch=record.broker_epoch
        )
    )


def broker_registration_error(_request: BrokerRegistrationRequest, error: ApiError) -> Entity:
    """The response with this code."""
    return BrokerRegistrationResponse(throttle_time=NO_TIME, error_code=error.code, broker_epoch=-1)


def _registration_error(
    image: Image,
    request: BrokerRegistrationRequest,
    liveness: Liveness,
    cluster_id: str,
    now_ms: int,
) -> ApiError | None:
    """Error for a registration, checked in Kafka's order; None if it is accepted."""
    if request.cluster_id != cluster_id:
        return ApiError(
            ErrorCode.inconsistent_cluster_id,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    existing = image.brokers.get(NodeId(request.broker_id))
    if (
        existing is not None
        and existing.incarnation_id != to_bytes(request.incarnation_id)
        and liveness.has_valid_session(existing, now_ms)
    ):
        liveness.challenge(existing)
        return ApiError(
            ErrorCode.duplicate_broker_registration,
            "Another broker is registered with that broker id. If the broker was recently restarted"
            " this should self-resolve once the heartbeat manager expires the broker's session.",
        )
    if request.is_migrating_zk_broker:
        return ApiError(
            ErrorCode.broker_id_not_registered,
            "Controller does not support registering ZK brokers.",
        )
    text = _directories_error(image, request) or _listeners_error(request)
    if text is not None:
        return ApiError(ErrorCode.invalid_registration, text)
    features = supported_features(_feature_ranges(request))
    return unsupported_feature(image, features)


def _feature_ranges(request: BrokerRegistrationRequest) -> list[tuple[str, int, int]]:
    return [(f.name, f.min_supported_version, f.max_supported_version) for f in request.features]


def _directories_error(image: Image, request: BrokerRegistrationRequest) -> str | None:
    if image.metadata_version < LEVEL_DIRECTORIES:
        return None
    directories = [DirectoryId(to_bytes(directory)) for directory in request.log_dirs]
    if not directories:
        return "No directories specified in request"
    if len(set(directories)) != len(directories):
        return "Duplicate directory IDs in request"
    if any(int.from_bytes(d, "big") < _RESERVED_DIRECTORIES for d in directories):
        return "Reserved directory ID in request"
    own_id = NodeId(request.broker_id)
    for broker_id, broker in image.brokers.items():
        if broker_id != own_id and not set(directories).isdisjoint(broker.log_dirs):
            return f"Broker {broker_id} is already registered with one of the directories"
    return None


def _listeners_error(request: BrokerRegistrationRequest) -> str | None:
    if not request.listeners:
        return "No listeners specified in request"
    for listener in request.listeners:
        if not listener.host or not 0 < listener.port <= _PORT_MAX:
            return f"Invalid address of listener {listener.name}"
        if listener.security_protocol not in _SECURITY_PROTOCOLS:
            return f"Unknown security protocol {listener.security_protocol}"
    return None


def _registration_record(
    image: Image, request: BrokerRegistrationRequest, epoch: BrokerEpoch
) -> RegisterBrokerRecord:
    has_directories = image.metadata_version >= LEVEL_DIRECTORIES
    return RegisterBrokerRecord(
        broker_id=NodeId(request.broker_id),
        incarnation_id=to_bytes(request.incarnation_id),
        broker_epoch=epoch,
        end_points=registered_endpoints(request),
        features=supported_features(_feature_ranges(request)),
        rack=request.rack,
        fenced=True,
        log_dirs=(
            tuple(DirectoryId(to_bytes(directory)) for directory in request.log_dirs)
            if has_directories
            else ()
        ),
    )


# --- heartbeats ---------------------------------------------------------------------------------


def broker_heartbeat(
    draft: Draft, request: BrokerHeartbeatRequest, services: Services
) -> HandlerResult | ApiError:
    """Move a broker to its next state; STALE_BROKER_EPOCH unless its epoch is registered."""
    broker = draft.image.brokers.get(NodeId(request.broker_id))
    if broker is None or broker.epoch != BrokerEpoch(request.broker_epoch):
        return HandlerResult(
            broker_heartbeat_error(request, ApiError(ErrorCode.stale_broker_epoch))
        )
    liveness, electorate, now_ms = services.liveness, services.electorate, services.now_ms
    current = current_state(broker, liveness)
    following = next_state(draft.image, broker, current, request, liveness, electorate.index)
    sweep = None
    if current is not following:
        sweep = _enter(draft, broker, following, electorate)
    after = draft.image.brokers[broker.id]
    liveness.touch(after, request.current_metadata_offset, now_ms)
    if following is BrokerState.CONTROLLED_SHUTDOWN:
        last_offset = Offset(draft.end_offset - 1)
        liveness.enter_controlled_shutdown(after, last_offset, now_ms)
    offline = [DirectoryId(to_bytes(directory)) for directory in request.offline_log_dirs]
    if offline and sweep is None:
        _take_directories_offline(draft, after, offline, electorate)
    if request.cordoned_log_dirs is not None:
        directories = [DirectoryId(to_bytes(one)) for one in request.cordoned_log_dirs]
        _cordon_directories(draft, after, directories)
    is_stopping = following is BrokerState.SHUTDOWN_NOW
    if is_stopping:
        liveness.end_session(after)
    response = BrokerHeartbeatResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        is_caught_up=request.current_metadata_offset >= broker.registration_offset,
        is_fenced=is_stopping or following is BrokerState.FENCED,
        should_shut_down=is_stopping,
    )
    return HandlerResult(response, sweep)


def broker_heartbeat_error(_request: BrokerHeartbeatRequest, error: ApiError) -> Entity:
    """The response with this code."""
    return BrokerHeartbeatResponse(
        throttle_time=NO_TIME, error_code=error.code, should_shut_down=False
    )


def current_state(broker: Broker, liveness: Liveness) -> BrokerState:
    """The state of a broker; a controlled shutdown is soft state and lost at a fail-over."""
    if liveness.shutdown_offset(broker) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


def next_state(  # noqa: PLR0911 - one return per row of the table
    image: Image,
    broker: Broker,
    current: BrokerState,
    request: BrokerHeartbeatRequest,
    liveness: Liveness,
    index: PartitionIndex,
) -> BrokerState:
    """The next state of a broker in the heartbeat state machine."""
    if current is BrokerState.CONTROLLED_SHUTDOWN:
        if index.leads_any(image, broker.id):
            return current
        shutdown_offset = liveness.shutdown_offset(broker)
        lowest = liveness.lowest_active_offset(image)
        assert shutdown_offset is not None, "the state says so"
        is_seen_by_all = lowest is None or shutdown_offset <= lowest
        return BrokerState.SHUTDOWN_NOW if is_seen_by_all else current
    if current is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        is_caught_up = request.current_metadata_offset >= broker.registration_offset
        return current if request.want_fence or not is_caught_up else BrokerState.UNFENCED
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if request.want_shut_down:
        if index.leads_any(image, broker.id):
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW
    return current


def _enter(
    draft: Draft,
    broker: Broker,
    state: BrokerState,
    electorate: Electorate,
) -> Sweep | None:
    """Emit the records of a transition; return the sweep if one slice was not enough."""
    if state is BrokerState.UNFENCED:
        _emit_unfence(draft, broker)
        kind = SweepKind.UNFENCE
    elif state is BrokerState.CONTROLLED_SHUTDOWN:
        level = draft.image.metadata_version
        if level >= LEVEL_CONTROLLED_SHUTDOWN and not broker.in_controlled_shutdown:
            draft.emit(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id,
                    broker_epoch=broker.epoch,
                    in_controlled_shutdown=REGISTRATION_IN_CONTROLLED_SHUTDOWN,
                )
            )
        kind = SweepKind.CONTROLLED_SHUTDOWN
    else:
        kind = SweepKind.FENCE
    sweep = Sweep(kind, broker)
    is_done = sweep_slice(draft, sweep, electorate)
    return None if is_done else sweep


def _emit_unfence(draft: Draft, broker: Broker) -> None:
    if draft.image.metadata_version >= LEVEL_REGISTRATION_CHANGE:
        draft.emit(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, fenced=REGISTRATION_UNFENCE
            )
        )
    else:
        draft.emit(UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch))


def _take_directories_offline(
    draft: Draft,
    broker: Broker,
    offline: Iterable[DirectoryId],
    electorate: Electorate,
) -> None:
    """Remove the broker from ISRs of partitions in lost directories, last change its registration.

    Brokers repeat their lost directories in every heartbeat: the next one continues what did not
    fit into one slice.
    """
    lost = set(offline) & set(broker.log_dirs)
    if not lost or draft.image.metadata_version < LEVEL_DIRECTORIES:
        return
    policy = electorate.policy(never=broker.id)
    candidates = electorate.index.partitions_of(
        draft.image, broker.id, lambda p: broker.id in p.isr and p.directory(broker.id) in lost
    )
    for candidate in candidates:
        if len(draft.records) >= RECORDS_PER_SLICE_MAX - 1:
            return
        partition = draft.image.partition(*candidate)
        assert partition is not None, "just scanned"
        isr = tuple(replica for replica in partition.isr if replica != broker.id)
        record = change_record(draft.image, candidate, Target(isr=isr), policy)
        if record is not None:
            draft.emit(record)
    remaining = tuple(directory for directory in broker.log_dirs if directory not in lost)
    if remaining:  # a broker without any directory shuts down by itself
        draft.emit(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=remaining
            )
        )


def _cordon_directories(draft: Draft, broker: Broker, directories: Sequence[DirectoryId]) -> None:
    """Emit changed cordoned directories (KIP-1066); the first report is emitted even if empty."""
    if draft.image.metadata_version < LEVEL_CORDONED_DIRECTORIES:
        return
    cordoned = broker.cordoned_log_dirs
    if cordoned is None or set(cordoned) != set(directories):
        draft.emit(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id,
                broker_epoch=broker.epoch,
                cordoned_log_dirs=tuple(directories),
            )
        )


# --- unregistration -----------------------------------------------------------------------------


def unregister_broker(
    draft: Draft, request: UnregisterBrokerRequest, services: Services
) -> HandlerResult | ApiError:
    """Remove a broker, not from replica lists. BROKER_ID_NOT_REGISTERED when unknown."""
    broker = draft.image.brokers.get(NodeId(request.broker_id))
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered"
        error = ApiError(ErrorCode.broker_id_not_registered, text)
        return HandlerResult(unregister_broker_error(request, error))
    sweep = Sweep(SweepKind.UNREGISTER, broker)
    is_done = sweep_slice(draft, sweep, services.electorate)
    response = unregister_broker_error(request, ApiError(ErrorCode.none, ""))
    return HandlerResult(response, None if is_done else sweep)


def unregister_broker_error(_request: UnregisterBrokerRequest, error: ApiError) -> Entity:
    """The response with this code and text."""
    return UnregisterBrokerResponse(
        throttle_time=NO_TIME, error_code=error.code, error_message=error.message
    )
