"""Arguments of a handler besides image and request: settings, randomness, time, soft state."""

from collections.abc import Callable

import msgspec

from metadata.image import Image
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.config import ControllerConfig
from quorum_controller.configs.topic_defaults import TopicConfigDefaults
from quorum_controller.partitions.partition_index import Electorate
from quorum_controller.result import RequestContext
from quorum_controller.security.authorization import (
    Action,
    Caller,
    Operation,
    ResourceType,
    is_allowed,
)
from quorum_controller.topics.mutation_quota import MutationQuotas
from quorum_controller.topics.placement import UsableBroker
from quorum_controller.topics.topics import CREATE_TOPICS_STRICT_VERSION, TopicServices
from wire.types import Rng


class QuorumFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of raft about the quorum; the kernel sets them before a change of feature levels."""

    kraft_version: int = 0
    voter_ids: tuple[int, ...] = ()
    """Controllers that must be registered before a feature level changes."""
    raise_refusal: str | None = None
    """The reason why kraft.version cannot be raised now, None if it can."""


class Services(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The services of the controller for one request; built for each, so times are plain values."""

    config: ControllerConfig
    context: RequestContext
    """Context of the request."""
    quorum: QuorumFacts = QuorumFacts()
    """Level and voters of the quorum."""
    defaults: TopicConfigDefaults
    rng: Rng
    new_uuid: Callable[[], bytes]
    """Returns 16 bytes, never a reserved id."""
    liveness: Liveness
    now_ms: int
    """Monotonic, for sessions and deadlines."""
    wall_ms: int
    """Since 1970, for stored times; also the timestamp of the batch."""
    electorate: Electorate
    """Context of leader elections."""
    quotas: MutationQuotas
    """The controller mutation quota."""

    def charge(self, image: Image, partition_count: int, strict_since_version: int) -> int:
        """Charge the caller's quota; return the ms to wait if it is exhausted, else 0.

        Requests below `strict_since_version` have no error for it and are never refused.
        """
        context = self.context
        user = context.principal.partition(":")[2]
        wait_ms = self.quotas.charge(image, user, context.client_id, partition_count, self.now_ms)
        return wait_ms if context.api_version >= strict_since_version else 0

    @property
    def caller(self) -> Caller:
        """The caller as the authorizer's argument."""
        return Caller(self.context.principal, self.context.client_host)

    def may(self, image: Image, operation: Operation, kind: ResourceType, name: str) -> bool:
        """True if the caller may perform the operation; always without an authorizer."""
        access = self.config.access
        return access is None or is_allowed(
            image, access, self.caller, Action(operation, kind, name)
        )

    def usable_brokers(self, image: Image) -> list[UsableBroker]:
        """Return the brokers that may get new replicas, also fenced ones, sorted by id.

        Brokers in controlled shutdown or with every log directory cordoned are excluded.
        """
        usable = [
            UsableBroker(broker.id, broker.rack, broker.fenced)
            for broker in image.brokers.values()
            if not broker.in_controlled_shutdown
            and self.liveness.shutdown_offset(broker) is None
            and broker.has_uncordoned_directory()
        ]
        usable.sort(key=lambda broker: broker.id)
        return usable

    def for_topics(self, image: Image) -> TopicServices:
        """Return the services for the creation of topics."""
        return TopicServices(
            config=self.config,
            defaults=self.defaults,
            rng=self.rng,
            new_uuid=self.new_uuid,
            usable_brokers=self.usable_brokers(image),
            charge=lambda count: self.charge(image, count, CREATE_TOPICS_STRICT_VERSION),
        )
