"""Operations on a group that a caller is authorized for, as descriptions tell them."""

from typing import Final

from broker.apis.access import Access
from quorum_controller.security.authorization import Caller, Operation, ResourceType

GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""All operations on a group (apache/kafka: AclEntry.supportedOperations)."""


def group_operations(access: Access, caller: Caller, group_id: str) -> int:
    """The bit field of the operations that a caller may do with a group."""
    return sum(
        1 << operation
        for operation in GROUP_OPERATIONS
        if access.allows(caller, operation, ResourceType.GROUP, group_id)
    )
