"""Access control lists: CreateAcls, DeleteAcls, DescribeAcls.

Without an authorizer (`authorizer.class.name`) all three answer SECURITY_DISABLED. An ACL that
exists already is created without a record; one that two filters of a request match is deleted
once.
Source: apache/kafka: metadata/.../controller/AclControlManager.java, core/.../server/AclApis.scala,
clients/.../resource/ResourcePatternFilter.java; 4.3 texts.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from metadata.conversion import copied
from metadata.image import Acl, Image, sorted_items
from metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.query_context import QueryContext
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.security.authorization import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from quorum_controller.services import Services
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from wire.api_keys import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

_DISABLED: Final = ApiError(ErrorCode.security_disabled, "No Authorizer is configured.")
_DISABLED_ON_BROKER: Final = ApiError(
    ErrorCode.security_disabled, "No Authorizer is configured on the broker"
)
_NO_COLON: Final = (
    "Could not parse principal from `{}` (no colon is present separating the principal type from "
    "the principal name)"
)
_SUCCESS: Final = ApiError(ErrorCode.none, "")


# --- creation -----------------------------------------------------------------------------------


def create_acls(
    draft: Draft, request: "CreateAclsRequest", services: Services
) -> HandlerResult | ApiError:
    """Create ACLs, each on its own; return a CreateAclsResponse with a row per ACL, in order."""
    if services.config.access is None:
        return _DISABLED
    existing = set(draft.image.acls.values())
    results = []
    for creation in request.creations:
        error = _creation_error(creation)
        if error is None:
            acl = _acl(creation)
            if acl not in existing:
                existing.add(acl)
                _emit(draft, acl, services.new_uuid())
            if len(draft.records) > RECORDS_PER_BATCH_MAX:
                return RECORDS_EXCEEDED
        results.append(_creation_row(error or _SUCCESS))
    new = codec.newest(CREATE_ACLS, "response")
    return HandlerResult(new.CreateAclsResponse(throttle_time=NO_TIME, results=tuple(results)))


def create_acls_error(request: "CreateAclsRequest", error: ApiError) -> Entity:
    """The response with this error for every ACL of the request."""
    new = codec.newest(CREATE_ACLS, "response")
    rows = tuple(_creation_row(error) for _ in request.creations)
    return new.CreateAclsResponse(throttle_time=NO_TIME, results=rows)


def _creation_row(error: ApiError) -> Entity:
    new = codec.newest(CREATE_ACLS, "response")
    return new.AclCreationResult(error_code=error.code, error_message=error.message)


def _emit(draft: Draft, acl: Acl, acl_id: bytes) -> None:
    assert acl_id not in draft.image.acls, "an ACL id came twice"
    draft.emit(copied(AccessControlEntryRecord, acl, id=acl_id))


def _acl(creation: "AclCreation") -> Acl:
    return Acl(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _creation_error(creation: "AclCreation") -> ApiError | None:
    """The error of an invalid ACL, by the checks of API and controller in Kafka's order."""
    kind = _known(ResourceType, creation.resource_type)
    pattern = _known(PatternType, creation.resource_pattern_type)
    operation = _known(Operation, creation.operation)
    permission = _known(Permission, creation.permission_type)
    name, principal = creation.resource_name, creation.principal
    checks = (
        (
            kind == ResourceType.CLUSTER and name != CLUSTER_NAME,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        ),
        (not name, "Invalid empty resource name"),
        (kind <= ResourceType.ANY, f"Invalid resourceType {kind.name}"),
        (pattern < PatternType.LITERAL, f"Invalid patternType {pattern.name}"),
        (operation <= Operation.ANY, f"Invalid operation {operation.name}"),
        (permission < Permission.DENY, f"Invalid permissionType {permission.name}"),
        (":" not in principal, _NO_COLON.format(principal)),
    )
    text = next((text for is_wrong, text in checks if is_wrong), None)
    return None if text is None else ApiError(ErrorCode.invalid_request, text)


def _known(enumeration: type[IntEnum], number: int) -> IntEnum:
    """The member of this number; UNKNOWN for numbers that Kafka does not define."""
    return enumeration(number) if number in enumeration._value2member_map_ else enumeration(0)


# --- deletion -----------------------------------------------------------------------------------


def delete_acls(
    draft: Draft, request: "DeleteAclsRequest", services: Services
) -> HandlerResult | ApiError:
    """Delete matching ACLs; return a DeleteAclsResponse with a row per filter, in order."""
    if services.config.access is None:
        return _DISABLED
    before = sorted_items(draft.image.acls)
    new = codec.newest(DELETE_ACLS, "response")
    results = []
    for wanted in request.filters:
        error = _filter_error(wanted)
        found = [] if error else [(key, acl) for key, acl in before if _matches(wanted, acl)]
        for acl_id, _ in found:
            if acl_id in draft.image.acls:
                draft.emit(RemoveAccessControlEntryRecord(id=acl_id))
        if len(draft.records) > RECORDS_PER_BATCH_MAX:
            return RECORDS_EXCEEDED
        results.append(
            new.DeleteAclsFilterResult(
                error_code=error.code if error else ErrorCode.none,
                error_message=error.message if error else None,
                matching_acls=tuple(_deleted(acl) for _, acl in found),
            )
        )
    return HandlerResult(
        new.DeleteAclsResponse(throttle_time=NO_TIME, filter_results=tuple(results))
    )


def delete_acls_error(request: "DeleteAclsRequest", error: ApiError) -> Entity:
    """The response with this error for every filter of the request."""
    new = codec.newest(DELETE_ACLS, "response")
    row = new.DeleteAclsFilterResult(
        error_code=error.code, error_message=error.message, matching_acls=()
    )
    return new.DeleteAclsResponse(
        throttle_time=NO_TIME, filter_results=(row,) * len(request.filters)
    )


def _deleted(acl: Acl) -> Entity:
    new = codec.newest(DELETE_ACLS, "response")
    return new.DeleteAclsMatchingAcl(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


# --- description --------------------------------------------------------------------------------


def describe_acls(image: Image, request: "DescribeAclsRequest", context: QueryContext) -> Entity:
    """The ACLs that match a filter, grouped by resource, in the order of their fields."""
    if context.access is None:
        return describe_acls_error(request, _DISABLED_ON_BROKER)
    error = _filter_error(request)
    if error is not None:
        return describe_acls_error(request, error)
    new = codec.newest(DESCRIBE_ACLS, "response")
    by_resource: dict[tuple[int, str, int], list[Entity]] = {}
    for acl in sorted(_matching(image, request), key=_order):
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        by_resource.setdefault(key, []).append(
            new.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    resources = tuple(
        new.DescribeAclsResource(
            resource_type=kind, resource_name=name, pattern_type=pattern, acls=tuple(rows)
        )
        for (kind, name, pattern), rows in by_resource.items()
    )
    return _description(_SUCCESS, resources)


def describe_acls_error(_request: "DescribeAclsRequest", error: ApiError) -> Entity:
    """The response with this error."""
    return _description(error, ())


def _description(error: ApiError, resources: tuple[Entity, ...]) -> Entity:
    new = codec.newest(DESCRIBE_ACLS, "response")
    return new.DescribeAclsResponse(
        throttle_time=NO_TIME,
        error_code=error.code,
        error_message=error.message,
        resources=resources,
    )


def _order(acl: Acl) -> tuple[int | str, ...]:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _matching(image: Image, wanted: "DeleteAclsFilter | DescribeAclsRequest") -> Iterable[Acl]:
    return (acl for acl in image.acls.values() if _matches(wanted, acl))


# --- filters ------------------------------------------------------------------------------------


def _filter_error(wanted: "DeleteAclsFilter | DescribeAclsRequest") -> ApiError | None:
    """INVALID_REQUEST for a filter with a number that Kafka does not define."""
    if not (
        _known(ResourceType, wanted.resource_type_filter)
        and _known(PatternType, wanted.pattern_type_filter)
    ):
        return ApiError(ErrorCode.invalid_request, "Unknown patternFilter.")
    if not (_known(Operation, wanted.operation) and _known(Permission, wanted.permission_type)):
        return ApiError(ErrorCode.invalid_request, "Unknown entryFilter.")
    return None


def _matches(wanted: "DeleteAclsFilter | DescribeAclsRequest", acl: Acl) -> bool:
    """True if an ACL matches a filter; null and ANY match everything."""
    return (
        wanted.resource_type_filter in (ResourceType.ANY, acl.resource_type)
        and _matches_name(wanted.pattern_type_filter, wanted.resource_name_filter, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission_type)
    )


def _matches_name(pattern: int, name: str | None, acl: Acl) -> bool:
    """True if type and name match; MATCH matches every ACL that covers the name."""
    if pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if pattern != PatternType.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)
