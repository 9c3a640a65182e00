"""Registration of this controller with the active one, repeated until the image has it.

From metadata.version 15 (3.7-IV0). Source: apache/kafka: core/.../server/
ControllerRegistrationManager.scala.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kernel.config import NodeConfig
from kernel.lifecycle.controller_link import ControllerLink
from metadata.delta import MetadataDelta
from metadata.features import CONTROLLER_FEATURES
from metadata.image import Image
from network.clock import Clock
from network.peers import Failure
from network.timers import REGISTRATION
from wire.api_keys import CONTROLLER_REGISTRATION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import Endpoint

if TYPE_CHECKING:
    from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

METADATA_VERSION_MIN: Final = 15
BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 5_000


INSPECTION_ENDPOINT: Final = "INSPECTION"
"""Name of the endpoint of the inspection API in the registration of a controller."""
_ANY_HOST: Final = ("0.0.0.0", "::")  # noqa: S104 - addresses to compare with


def registered_endpoints(config: NodeConfig) -> tuple[Endpoint, ...]:
    """Return the controller listeners, and the inspection API as one more endpoint if it is on.

    By it other nodes redirect linearizable reads to this one while it leads. Nodes of Kafka look
    endpoints up by the names of their own listeners and pass over it. An API on all interfaces is
    registered with the host of the first controller listener.
    """
    listeners, inspection = config.advertised_controller_listeners, config.inspection_listener
    is_taken = any(endpoint.listener == INSPECTION_ENDPOINT for endpoint in config.listeners)
    if inspection is None or is_taken or not listeners:
        return listeners
    host = listeners[0].host if inspection.host in _ANY_HOST else inspection.host
    return (*listeners, Endpoint(INSPECTION_ENDPOINT, host, inspection.port))


class ControllerRegistration:
    """The registration of this controller, driven by the published image and a timer."""

    def __init__(
        self, config: NodeConfig, incarnation_id: UUID, controller: ControllerLink, clock: Clock
    ) -> None:
        self._config = config
        self._incarnation_id = incarnation_id
        self._controller = controller
        self._clock = clock
        self._timers = clock.timers
        self._is_waiting = False
        self._is_wanted = False
        """True while the image lacks this registration."""
        self._failure_count = 0

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Schedule a registration while the image lacks this incarnation."""
        del before, delta
        registered = after.controllers.get(self._config.node_id)
        if after.metadata_version < METADATA_VERSION_MIN or (
            registered is not None and registered.incarnation_id == self._incarnation_id.bytes
        ):
            if self._is_wanted:
                self._is_wanted = False
                self._timers.clear(REGISTRATION)
        elif not self._is_wanted and not self._is_waiting:
            self._is_wanted = True
            self._timers.set(REGISTRATION, self._clock.now_ms)

    def tick(self) -> None:
        """Send the registration if it is due and the active controller is known."""
        now_ms = self._clock.now_ms
        if now_ms < self._timers.at_ms[REGISTRATION]:
            return
        if self._controller.target is None:
            self._timers.set(REGISTRATION, now_ms + BACKOFF_MS_MIN)
            return
        self._is_waiting = True
        self._timers.clear(REGISTRATION)
        self._controller.call(
            CONTROLLER_REGISTRATION, self._body, REQUEST_TIMEOUT_MS, self._on_answer
        )

    @cached_property
    def _body(self) -> Entity:
        """The request body, constant for the process."""
        new = codec.newest(CONTROLLER_REGISTRATION, "request")
        return new.ControllerRegistrationRequest(
            controller_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=tuple(
                new.Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=0,
                )
                for endpoint in registered_endpoints(self._config)
            ),
            features=tuple(
                new.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in CONTROLLER_FEATURES.items()
            ),
        )

    def _on_answer(self, answer: "Failure | ControllerRegistrationResponse") -> None:
        self._is_waiting = False
        if not isinstance(answer, Failure) and answer.error_code is ErrorCode.none:
            self._failure_count = 0
            # The record arrives with the image; send again only if it does not.
            if self._is_wanted:
                self._timers.set(REGISTRATION, self._clock.now_ms + BACKOFF_MS_MAX)
            return
        pause_ms = min(BACKOFF_MS_MIN << min(self._failure_count, 10), BACKOFF_MS_MAX)
        self._failure_count += 1
        if self._is_wanted:
            self._timers.set(REGISTRATION, self._clock.now_ms + pause_ms)
