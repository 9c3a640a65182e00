"""Permissions of the callers of the records APIs, by the ACLs of the newest image.

apache/kafka: core/.../server/{KafkaApis,AuthHelper}.scala
"""

from collections.abc import Callable

from metadata.image import Image
from quorum_controller.security.authorization import (
    CLUSTER_NAME,
    AccessRules,
    Action,
    Caller,
    Operation,
    ResourceType,
    is_allowed,
    is_allowed_somewhere,
)


class Access:
    """The authorizer of one broker.

    Args:
        rules: None without an authorizer: everything is allowed.
        image: returns the newest image.
    """

    def __init__(self, rules: AccessRules | None, image: Callable[[], Image]) -> None:
        self._rules = rules
        self._image = image

    def allows(
        self, caller: Caller, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """True if the caller may do this with a resource, which need not exist."""
        rules = self._rules
        return rules is None or is_allowed(
            self._image(), rules, caller, Action(operation, resource_type, name)
        )

    def allows_topic(self, caller: Caller, operation: Operation, name: str) -> bool:
        """True if the caller may do this with a topic."""
        return self.allows(caller, operation, ResourceType.TOPIC, name)

    def allows_cluster(self, caller: Caller, operation: Operation) -> bool:
        """True if the caller may do this with the cluster."""
        return self.allows(caller, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_some_topic(self, caller: Caller, operation: Operation) -> bool:
        """True if the caller may do this with one topic at least, which need not exist."""
        rules = self._rules
        return rules is None or is_allowed_somewhere(
            self._image(), rules, caller, operation, ResourceType.TOPIC
        )
