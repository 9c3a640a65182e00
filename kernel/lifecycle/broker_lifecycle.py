"""The life cycle of a broker: registration, heartbeats, controlled shutdown.

At most one request is in flight. A broker asks to be unfenced once it has published an image with
its own registration, and its records, if it serves any, are ready. Source: apache/kafka:
core/.../server/BrokerLifecycleManager.scala; unlike it, the first retries are quick (20 ms),
because at the start of a whole quorum the controller is elected within some tens of milliseconds.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from kernel.config import NodeConfig
from kernel.effects import Effect, Exit, Log, LogLevel
from kernel.lifecycle.controlled_shutdown import (
    SHUTDOWN_MS_MAX,
    SHUTDOWN_POLL_MS,
    why_given_up,
)
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.cordoned_directories import cordoned_directories
from kernel.lifecycle.registration_refusal import (
    finalized_levels,
    refusal_text,
    supported_ranges,
)
from metadata.delta import MetadataDelta
from metadata.features import BROKER_FEATURES, CONTROLLER_FEATURES
from metadata.image import Image
from network.clock import Clock
from network.peers import Channel, Failure
from network.timers import (
    DIRECTORY_REPORT,
    HEARTBEAT,
    NEVER_MS,
    REGISTRATION_TIMEOUT,
    SHUTDOWN_CHECK,
)
from wire.api_keys import API_VERSIONS, BROKER_HEARTBEAT, BROKER_REGISTRATION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import DirectoryId

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.response import ApiVersionsResponse
    from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
    from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

REGISTRATION_BACKOFF_MS: Final = 20
CATCH_UP_POLL_MS: Final = 10
SECURITY_PLAINTEXT: Final = 0
UNREGISTERED: Final = "the broker could not register"
"""Start of the exit reason when the controller is missing or refuses the registration."""

_REGISTER_AGAIN: Final = (ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered)


class BrokerState(Enum):
    """Kafka's BrokerState, without the states that this broker lacks."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Incarnation(msgspec.Struct, frozen=True):
    """The identity of this process for the controller, apart from its configuration."""

    id: UUID
    directory_ids: Mapping[str, DirectoryId]
    """Id of every log directory, by path."""
    previous_epoch: int
    """Broker epoch of the last registration if it ended with a clean shutdown; else -1."""


class BrokerLifecycle:
    """The life cycle of this broker, driven by the published image and a timer.

    Args:
        config: settings of the node.
        cluster_id: cluster id from meta.properties.
        incarnation: identity of this process.
        controller: link to the active controller.
        clock: clock of the node.
        effects: sink of the effects.
        on_state: called after each change of the state.
        on_shut_down: called once, when the broker has left.
    """

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        *,
        incarnation: Incarnation,
        controller: ControllerLink,
        clock: Clock,
        effects: list[Effect],
        on_state: Callable[[], None],
        on_shut_down: Callable[[], None],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._controller = controller
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._on_state = on_state
        self._on_shut_down = on_shut_down
        self._registered: Callable[[int], None] = lambda _: None
        """Called with the epoch of each registration."""
        self._are_silent: Callable[[], bool] = lambda: False
        """Called before each heartbeat: True while the records do not take steps."""
        self._is_ready = True
        """False while the records of the broker keep it fenced."""
        self._offline_log_dirs: set[str] = set()
        self._unreported: dict[str, int] = {}
        """Offline log directories that the controller has not confirmed, with the time limit."""
        self._reported_now: frozenset[str] = frozenset()
        """Offline log directories in the heartbeat in flight, or in the last one."""
        self.state = BrokerState.NOT_RUNNING
        self.epoch: int | None = None
        self._end_offset = 0
        self._has_published = False
        self._is_waiting = False
        self._is_urgent = False  # the heartbeat in flight lacks the newest change
        self._failure_count = 0
        self._id_in_use_ms: int | None = None
        self._refusal = "no active controller"
        """Reason for the failure of the last registration."""
        self._features: Mapping[str, int] = {}
        """Finalized feature levels in the newest image."""
        self._cordoned: tuple[UUID, ...] | None = None
        self._shutdown_deadline_ms: int | None = None
        self.heard_ms = 0
        """Time of the last answer in a controlled shutdown, or of its begin."""
        self._is_image_fenced = True

    def start(self) -> None:
        """Begin the registration."""
        assert self.state is BrokerState.NOT_RUNNING, f"{self.state=}"
        self._become(BrokerState.STARTING)
        now_ms = self._clock.now_ms
        self._timers.set(HEARTBEAT, now_ms)
        timeout_ms = self._config.broker.initial_registration_timeout_ms
        self._timers.set(REGISTRATION_TIMEOUT, now_ms + timeout_ms)

    def _become(self, state: BrokerState) -> None:
        self.state = state
        self._on_state()

    @property
    def is_unfenced(self) -> bool:
        """True if this incarnation is unfenced in the newest published image."""
        return not self._is_image_fenced

    def on_leader_changed(self) -> None:
        """Send the next request at once, unless running: there is a new leader."""
        self._failure_count = 0
        self._id_in_use_ms = None  # a new leader starts every session's time-out anew
        if self._timers.is_set(HEARTBEAT) and not self.is_settled:
            self._timers.set(HEARTBEAT, self._clock.now_ms)

    @property
    def is_settled(self) -> bool:
        """True if the broker is running and not shutting down: no request is urgent."""
        return self.state is BrokerState.RUNNING

    def request_shutdown(self) -> None:
        """Begin the controlled shutdown; `on_shut_down` is called when it is done."""
        if self.state in (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN):
            return
        if self.epoch is None or not self._config.broker.controlled_shutdown_enable:
            self._shut_down()
            return
        self._become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        now_ms = self._clock.now_ms
        self._shutdown_deadline_ms, self.heard_ms = now_ms + SHUTDOWN_MS_MAX, now_ms
        self._timers.set(SHUTDOWN_CHECK, now_ms + SHUTDOWN_POLL_MS)
        if not self._is_waiting:
            self._timers.set(HEARTBEAT, now_ms)
        self.tick()

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Note the state of this broker and the end offset in the new image."""
        del before
        self._end_offset = after.provenance.end_offset
        if delta.features or delta.configs or not self._has_published:
            self._features = after.features
            self._cordon(after)
        self._has_published = True
        broker = after.brokers.get(self._config.node_id)
        mine = broker is not None and broker.incarnation_id == self._incarnation.id.bytes
        self._is_image_fenced = broker is None or not mine or broker.fenced
        is_awaited = self.state is BrokerState.STARTING or self._is_recovered
        if is_awaited and mine:
            self._hurry()
        elif (delta.brokers or delta.topics_changed) and any(
            other.in_controlled_shutdown and not other.fenced for other in after.brokers.values()
        ):
            # That broker waits until all others have read the new leaders, in every slice.
            self._hurry()

    @property
    def _is_recovered(self) -> bool:
        """True if only the controller's permission to run is missing."""
        return self.state is BrokerState.RECOVERY and self._is_ready

    def wait_for_records(
        self, registered: Callable[[int], None], are_silent: Callable[[], bool]
    ) -> None:
        """Stay fenced until `become_ready`, and while `are_silent`.

        `registered` gets the epoch of each registration.
        """
        assert self.state is BrokerState.NOT_RUNNING, f"{self.state=}"
        self._registered = registered
        self._are_silent = are_silent
        self._is_ready = False

    def become_ready(self) -> None:
        """Ask to be unfenced from now on: the records are ready (Kafka's setReadyToUnfence)."""
        self._is_ready = True
        self._hurry()

    def directory_failed(self, path: str) -> None:
        """Report a log directory as offline, at once and until the process ends."""
        assert path in self._incarnation.directory_ids, f"{path=}"
        if self._has_left or path in self._offline_log_dirs:
            return
        self._offline_log_dirs.add(path)
        self.__dict__.pop("_registration", None)
        limit_ms = self._config.broker.directory_report_timeout_ms
        self._unreported[path] = self._clock.now_ms + limit_ms
        self._set_report_timer()
        self._hurry()

    def _set_report_timer(self) -> None:
        self._timers.set(DIRECTORY_REPORT, min(self._unreported.values(), default=NEVER_MS))

    def _on_report_deadline(self) -> None:
        """Shut down in order: the controller lets this broker lead what it cannot read."""
        paths = ", ".join(self._unreported)
        error = f"Shutting down because couldn't communicate offline log dir {paths}"
        fields = {"error": f"{error} with controllers"}
        self._effects.append(Log(LogLevel.ERROR, "log_dir_failure_not_reported", fields))
        self._unreported.clear()
        self._set_report_timer()
        self.request_shutdown()

    def _directories(self, *, offline: bool) -> tuple[UUID, ...]:
        """Return the ids of the log directories that are offline, or of the others; sorted."""
        found = self._incarnation.directory_ids.items()
        failed = self._offline_log_dirs
        return tuple(
            sorted(UUID(bytes=each) for path, each in found if (path in failed) is offline)
        )

    def _cordon(self, image: Image) -> None:
        directory_ids = self._incarnation.directory_ids
        cordoned = cordoned_directories(image, self._config, directory_ids)
        if cordoned != self._cordoned:
            self._cordoned = cordoned
            self._hurry()

    def _hurry(self) -> None:
        self._is_urgent = self._is_waiting
        if self._timers.is_set(HEARTBEAT):
            self._timers.lower(HEARTBEAT, self._clock.now_ms)

    def tick(self) -> None:
        """Send the request that is due."""
        now_ms, at_ms = self._clock.now_ms, self._timers.at_ms
        if at_ms[SHUTDOWN_CHECK] <= now_ms:
            assert self._shutdown_deadline_ms is not None, "it shuts down"
            self._timers.set(SHUTDOWN_CHECK, now_ms + SHUTDOWN_POLL_MS)
            self._give_up_shutdown(self._shutdown_deadline_ms)
        if at_ms[REGISTRATION_TIMEOUT] <= now_ms:
            self._on_registration_deadline()
        if at_ms[DIRECTORY_REPORT] <= now_ms:
            self._on_report_deadline()
        if now_ms < at_ms[HEARTBEAT]:
            return
        if self._controller.target is None:
            self._timers.set(HEARTBEAT, now_ms + REGISTRATION_BACKOFF_MS)
            return
        self._is_waiting = True
        self._timers.clear(HEARTBEAT)
        if self.epoch is None:
            self._register()
        else:
            self._heartbeat()

    def _give_up_shutdown(self, deadline_ms: int) -> None:
        """Stop without the controller's permission if it is late or there can be none."""
        now_ms, is_refused = self._clock.now_ms, self._controller.is_quorum_refused()
        given_up = why_given_up(now_ms - self.heard_ms, deadline_ms - now_ms, is_refused=is_refused)
        if given_up is not None:
            level, reason = given_up
            self._effects.append(Log(level, "controlled_shutdown_given_up", {"reason": reason}))
            self._shut_down()

    # ---- registration ------------------------------------------------------------------------

    def _register(self) -> None:
        timeout_ms = self._config.broker.session_timeout_ms
        self._controller.call(
            BROKER_REGISTRATION, self._registration, timeout_ms, self._on_registered
        )

    @cached_property
    def _registration(self) -> Entity:
        """The registration request, often repeated; the same until a log directory fails."""
        new = codec.newest(BROKER_REGISTRATION, "request")
        return new.BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation.id,
            listeners=tuple(
                new.Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=SECURITY_PLAINTEXT,
                )
                for endpoint in self._config.advertised_broker_listeners
            ),
            features=tuple(
                new.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in BROKER_FEATURES.items()
            ),
            rack=self._config.broker.rack,
            log_dirs=self._directories(offline=False),
            previous_broker_epoch=self._incarnation.previous_epoch,
        )

    def _on_registered(self, answer: "Failure | BrokerRegistrationResponse") -> None:
        self._is_waiting = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if not isinstance(answer, Failure) and answer.error_code is ErrorCode.none:
            self.epoch = answer.broker_epoch
            self._failure_count = 0
            self._timers.clear(REGISTRATION_TIMEOUT)
            self._timers.set(HEARTBEAT, self._clock.now_ms)
            self._registered(answer.broker_epoch)
            return
        self._refusal = answer.value if isinstance(answer, Failure) else answer.error_code.name
        if self._refusal == ErrorCode.duplicate_broker_registration.name:
            self._on_id_in_use()
        else:
            self._retry(self._refusal)

    def _on_registration_deadline(self) -> None:
        """Exit, as Kafka's brokers do; an id that is in use has a limit of its own."""
        if self._refusal == ErrorCode.duplicate_broker_registration.name:
            heartbeat_ms = self._config.broker.heartbeat_interval_ms
            self._timers.set(REGISTRATION_TIMEOUT, self._clock.now_ms + heartbeat_ms)
            return
        self._timers.clear(REGISTRATION_TIMEOUT)
        if self._refusal != ErrorCode.unsupported_version.name:
            self._end_unregistered(self._refusal)
        elif self._controller.is_local:
            self._end_unregistered(refusal_text(self._features, CONTROLLER_FEATURES))
        else:
            body = codec.newest(API_VERSIONS, "request").ApiVersionsRequest(
                client_software_name="kraftline", client_software_version="1"
            )
            timeout_ms = self._config.broker.session_timeout_ms
            self._controller.send(
                Channel.LIFECYCLE, API_VERSIONS, body, timeout_ms, self._on_features
            )

    def _on_features(self, answer: "Failure | ApiVersionsResponse") -> None:
        """Exit, unless the broker has registered or begun to shut down in the meantime."""
        if self.epoch is not None or self.state is BrokerState.SHUTTING_DOWN:
            return
        if isinstance(answer, Failure):
            self._end_unregistered(refusal_text(self._features, {}))
        else:
            text = refusal_text(finalized_levels(answer), supported_ranges(answer))
            self._end_unregistered(text)

    def _end_unregistered(self, why: str) -> None:
        timeout_ms = self._config.broker.initial_registration_timeout_ms
        reason = f"{UNREGISTERED} within initial.broker.registration.timeout.ms={timeout_ms}: {why}"
        self._effects.append(Log(LogLevel.ERROR, "registration_timed_out", {"error": reason}))
        self._effects.append(Exit(1, reason))

    def _on_id_in_use(self) -> None:
        """Retry until a session of this node's former process must have expired, then exit."""
        now_ms, broker = self._clock.now_ms, self._config.broker
        if self._id_in_use_ms is None:
            self._id_in_use_ms = now_ms
        limit_ms = max(broker.initial_registration_timeout_ms, broker.session_timeout_ms)
        if now_ms - self._id_in_use_ms < limit_ms:
            self._retry(ErrorCode.duplicate_broker_registration.name)
            return
        reason = (
            f"node.id={self._config.node_id} is used by another broker that is registered and"
            " alive; each node of a cluster needs its own id"
        )
        self._effects.append(Log(LogLevel.ERROR, "node_id_in_use", {"error": reason}))
        self._effects.append(Exit(1, reason))

    def _retry(self, reason: str) -> None:
        doublings = min(self._failure_count, 10)
        self._failure_count += 1
        pause_ms = min(
            REGISTRATION_BACKOFF_MS << doublings, self._config.broker.heartbeat_interval_ms
        )
        self._timers.set(HEARTBEAT, self._clock.now_ms + pause_ms)
        if self._failure_count in (6, 60):
            fields = {"reason": reason, "attempts": self._failure_count}
            self._effects.append(Log(LogLevel.WARN, "controller_request_failed", fields))

    # ---- heartbeats --------------------------------------------------------------------------

    @property
    def _is_caught_up(self) -> bool:
        return self._has_published and self.epoch is not None and self._end_offset > self.epoch

    def _heartbeat(self) -> None:
        new = codec.newest(BROKER_HEARTBEAT, "request")
        self._reported_now = frozenset(self._offline_log_dirs)
        body = new.BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._end_offset - 1,
            want_fence=not (self._is_caught_up and self._is_ready) or self._are_silent(),
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self._directories(offline=True),
            cordoned_log_dirs=self._cordoned if self._is_caught_up else None,
        )
        timeout_ms = self._config.broker.session_timeout_ms
        self._controller.call(BROKER_HEARTBEAT, body, timeout_ms, self._on_heartbeat)

    def _on_heartbeat(self, answer: "Failure | BrokerHeartbeatResponse") -> None:
        self._is_waiting = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if isinstance(answer, Failure):
            self._retry(answer.value)
            return
        if answer.error_code is not ErrorCode.none:
            if answer.error_code in _REGISTER_AGAIN and not self._shutdown_deadline_ms:
                self.epoch = None
                self._become(BrokerState.STARTING)
            self._retry(answer.error_code.name)
            return
        self._failure_count = 0
        for path in sorted(self._reported_now & self._unreported.keys()):
            del self._unreported[path]
            self._set_report_timer()
        pause_ms = self._advance(answer)
        if self._is_urgent:
            self._is_urgent, pause_ms = False, 0
        if not self._has_left:
            self._timers.set(HEARTBEAT, self._clock.now_ms + pause_ms)

    def _advance(self, answer: "BrokerHeartbeatResponse") -> int:
        """Advance the state by a heartbeat response; return the pause before the next request."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.heard_ms = self._clock.now_ms
            if answer.should_shut_down:
                self._shut_down()
            return SHUTDOWN_POLL_MS
        if self.state is BrokerState.STARTING and answer.is_caught_up:
            self._become(BrokerState.RECOVERY)
        if self.state is BrokerState.RECOVERY and not answer.is_fenced:
            self._become(BrokerState.RUNNING)
            fields = {"broker_epoch": self.epoch}
            self._effects.append(Log(LogLevel.INFO, "broker_serves", fields))
        is_recovering = self.state is BrokerState.RECOVERY and not self._is_ready
        if self.state is BrokerState.RUNNING or is_recovering:
            return self._config.broker.heartbeat_interval_ms
        return CATCH_UP_POLL_MS

    @property
    def _has_left(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _shut_down(self) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        self._become(BrokerState.SHUTTING_DOWN)
        self._shutdown_deadline_ms = None
        self._unreported.clear()
        for name in (HEARTBEAT, REGISTRATION_TIMEOUT, SHUTDOWN_CHECK, DIRECTORY_REPORT):
            self._timers.clear(name)
        self._on_shut_down()
