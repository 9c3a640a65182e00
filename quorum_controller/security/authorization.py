"""StandardAuthorizer's decision as a pure function of the image's ACLs.

A matching DENY overrides every ALLOW; without a match access is denied, unless no ACL covers the
resource and `allow.everyone.if.no.acl.found` is set. ALLOW of some operations implies DESCRIBE or
DESCRIBE_CONFIGS, DENY implies nothing. Every ACL is examined, some 0.2 us each.
Source: apache/kafka: metadata/.../authorizer/StandardAuthorizerData.java.
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec

from metadata.image import Acl, Image
from wire.errors import ApiError, ErrorCode

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the CLUSTER resource."""
WILDCARD: Final = "*"
ANY_USER: Final = "User:*"
_ANY_NAME: Final = "hardcode"
"""Kafka's name of a resource that stands for all of its type."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication."""


class ResourceType(IntEnum):
    """The type of a resource (apache/kafka: common/resource/ResourceType.java)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The matching of the name of an ACL; ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource (apache/kafka: common/acl/AclOperation.java)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The effect of an ACL."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operations whose ALLOW also allows the key."""


CLUSTER_OPERATIONS: Final = {
    **dict.fromkeys((1, 52, 53, 54, 59, 82), Operation.CLUSTER_ACTION),  # the quorum
    **dict.fromkeys((56, 58, 62, 63, 67, 70, 73), Operation.CLUSTER_ACTION),  # brokers, Envelope
    **dict.fromkeys((30, 31, 43, 45, 51, 57, 64, 80, 81), Operation.ALTER),
    **dict.fromkeys((29, 35, 46, 50, 55), Operation.DESCRIBE),
    **dict.fromkeys((48, 74), Operation.DESCRIBE_CONFIGS),
    49: Operation.ALTER_CONFIGS,
}
"""Operation that an API key requires on the cluster; other APIs are authorized by resource."""


_CLUSTER_CONFIGS: Final = (
    ResourceType.CLUSTER,
    ErrorCode.cluster_authorization_failed,
    "Cluster authorization failed.",
)
_CONFIG_RESOURCES: Final = {
    2: (
        ResourceType.TOPIC,
        ErrorCode.topic_authorization_failed,
        "Topic authorization failed.",
    ),
    32: (
        ResourceType.GROUP,
        ErrorCode.group_authorization_failed,
        "Group authorization failed.",
    ),
}


class AccessRules(msgspec.Struct, frozen=True):
    """The settings of a node's authorizer."""

    super_users: frozenset[str] = frozenset()
    """super.users: principals (`User:admin`) that may do everything."""
    allows_without_acl: bool = False
    """allow.everyone.if.no.acl.found: the decision for a resource that no ACL covers."""


class Caller(msgspec.Struct, frozen=True):
    """Principal and host of a client."""

    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    """IP address as text, in the form of ACLs."""


class Action(msgspec.Struct, frozen=True):
    """An operation on one resource; the name is literal."""

    operation: Operation
    resource_type: ResourceType
    resource_name: str


def is_allowed(image: Image, rules: AccessRules, caller: Caller, action: Action) -> bool:
    """True if the ACLs of the image allow the action to the caller."""
    if caller.principal in rules.super_users:
        return True
    has_acls = has_allow = False
    for acl in image.acls.values():
        if acl.resource_type != action.resource_type or not _covers(acl, action.resource_name):
            continue
        has_acls = True
        if not _applies(acl, caller, action.operation):
            continue
        if acl.permission_type == Permission.DENY:
            return False
        has_allow = True
    return has_allow or (rules.allows_without_acl and not has_acls)


def is_allowed_somewhere(
    image: Image,
    rules: AccessRules,
    caller: Caller,
    operation: Operation,
    resource_type: ResourceType,
) -> bool:
    """True if the caller may do this with some resource of the type, also one that does not exist.

    Every ACL that allows it counts unless one that denies it covers all that it covers.
    Source: apache/kafka: clients/.../server/authorizer/Authorizer.java (authorizeByResourceType).
    """
    if is_allowed(image, rules, caller, Action(operation, resource_type, _ANY_NAME)):
        return True
    acls = [
        acl
        for acl in image.acls.values()
        if acl.resource_type == resource_type and _applies(acl, caller, operation)
    ]
    denying = [acl for acl in acls if acl.permission_type == Permission.DENY]
    return any(
        acl.permission_type == Permission.ALLOW
        and not any(_covers_all_of(deny, acl) for deny in denying)
        for acl in acls
    )


def cluster_error(
    image: Image, rules: AccessRules | None, caller: Caller, api_key: int
) -> ApiError | None:
    """CLUSTER_AUTHORIZATION_FAILED if the API requires a cluster operation that is not allowed.

    Args:
        image: with the ACLs.
        rules: None without an authorizer: everything is allowed.
        caller: of the request.
        api_key: of the request.
    """
    operation = CLUSTER_OPERATIONS.get(api_key)
    if rules is None or operation is None:
        return None
    if is_allowed(image, rules, caller, Action(operation, ResourceType.CLUSTER, CLUSTER_NAME)):
        return None
    text = f"Request of {caller.principal} needs {operation.name} permission."
    return ApiError(ErrorCode.cluster_authorization_failed, text)


def config_error(
    image: Image,
    rules: AccessRules | None,
    caller: Caller,
    operation: Operation,
    config_type: int,
    name: str,
) -> ApiError | None:
    """The authorization error of an access to the configs of a resource, None if allowed.

    Args:
        image: with the ACLs.
        rules: None without an authorizer.
        caller: of the request.
        operation: DESCRIBE_CONFIGS or ALTER_CONFIGS.
        config_type: Kafka's number; types other than topic and group belong to the cluster.
        name: of the topic or group.
    """
    kind, code, text = _CONFIG_RESOURCES.get(config_type, _CLUSTER_CONFIGS)
    resource = CLUSTER_NAME if kind is ResourceType.CLUSTER else name
    if rules is None or is_allowed(image, rules, caller, Action(operation, kind, resource)):
        return None
    return ApiError(code, text)


@lru_cache(1024)
def host_text(address: bytes) -> str:
    """An IP address in the form of ACLs: `127.0.0.1`, or `0:0:0:0:0:0:0:1` as Java prints it.

    Other lengths than 4 or 16 bytes give a text that no ACL contains.
    """
    if len(address) == 4:
        return ".".join(str(byte) for byte in address)
    pairs = zip(address[::2], address[1::2], strict=False)
    return ":".join(f"{256 * high + low:x}" for high, low in pairs)


def allowed_operations(
    image: Image,
    rules: AccessRules,
    caller: Caller,
    resource: tuple[ResourceType, str],
    candidates: Iterable[Operation],
) -> int:
    """The allowed operations of the candidates as bits (1 << number of the operation)."""
    bits = 0
    for operation in candidates:
        if is_allowed(image, rules, caller, Action(operation, *resource)):
            bits |= 1 << operation
    return bits


def _covers(acl: Acl, name: str) -> bool:
    """True if the ACL covers a resource of this name (of its type)."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def _covers_all_of(acl: Acl, other: Acl) -> bool:
    """True if no resource is covered by the other ACL alone."""
    if acl.pattern_type == PatternType.PREFIXED:
        return other.resource_name.startswith(acl.resource_name)
    is_same = other.resource_name == acl.resource_name
    return acl.resource_name == WILDCARD or (is_same and other.pattern_type != PatternType.PREFIXED)


def _applies(acl: Acl, caller: Caller, operation: Operation) -> bool:
    """True if principal, host and operation of the ACL match."""
    if acl.principal not in (caller.principal, ANY_USER):
        return False
    if acl.host not in (caller.host, WILDCARD):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    implying = _IMPLYING.get(operation, frozenset())
    return acl.permission_type == Permission.ALLOW and acl.operation in implying
