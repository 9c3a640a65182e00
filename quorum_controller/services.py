"""What a handler may use besides the image and the request: settings, chance, time, soft state."""

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


class Services(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request's view of the controller; made anew for each, so times are plain values."""

    config: ControllerConfig
    context: RequestContext
    """Of the caller."""
    defaults: TopicConfigDefaults
    rng: Rng
    new_uuid: Callable[[], bytes]
    """16 bytes, never a reserved id."""
    liveness: Liveness
    now_ms: int
    """Monotonic: sessions and deadlines."""
    wall_ms: int
    """Since 1970, for what is stored as a date; the batch gets the same timestamp."""
    electorate: Electorate
    """For whatever may move leaders."""
    quotas: MutationQuotas = msgspec.field(default_factory=MutationQuotas)
    """How much a client may change."""

    def charge(self, image: Image, partition_count: int, strict_since_version: int) -> int:
        """Ms that the caller must wait before it may change so many partitions, 0 if it may now.

        Older versions than `strict_since_version` have no error for it: they are never refused.
        """
        context = self.context
        user = context.principal.partition(":")[2]
        wait_ms = self.quotas.charge(image, user, context.client_id, partition_count, self.now_ms)
        return wait_ms if context.api_version >= strict_since_version else 0

    @property
    def caller(self) -> Caller:
        """Who asks, as the authorizer sees it."""
        return Caller(self.context.principal, self.context.client_host)

    def may(self, image: Image, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the caller may do this; always without an authorizer."""
        access = self.config.access
        return access is None or is_allowed(
            image, access, self.caller, Action(operation, kind, name)
        )

    def usable_brokers(self, image: Image) -> list[UsableBroker]:
        """Brokers that may get new replicas, fenced ones too, sorted by id.

        Not those that are shutting down, or have every log directory cordoned.
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
        """What creation of topics and partitions needs."""
        return TopicServices(
            config=self.config,
            defaults=self.defaults,
            rng=self.rng,
            new_uuid=self.new_uuid,
            usable_brokers=self.usable_brokers(image),
            charge=lambda count: self.charge(image, count, CREATE_TOPICS_STRICT_VERSION),
        )
