"""Client quotas (KIP-546): AlterClientQuotas and DescribeClientQuotas.

An entity is a user, a client id, both, or an IP; the name None is the default of its type.
Source: apache/kafka: metadata/.../controller/ClientQuotaControlManager.java,
image/ClientQuotasImage.java, server-common/.../QuotaConfig.java; 4.3.
"""

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from metadata.image import Image, QuotaKey
from metadata.records import ClientQuotaRecord, QuotaEntity
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.query_context import QueryContext
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.services import Services
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from wire.api_keys import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData
    from kio.schema.describe_client_quotas.v1.request import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

_alter: Final = codec.newest(ALTER_CLIENT_QUOTAS, "response")
_describe: Final = codec.newest(DESCRIBE_CLIENT_QUOTAS, "response")


USER, CLIENT_ID, IP = "user", "client-id", "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)
_CLIENT_KEYS: Final = {
    "producer_byte_rate": "LONG",
    "consumer_byte_rate": "LONG",
    "request_percentage": "DOUBLE",
    "controller_mutation_rate": "DOUBLE",
}
_IP_KEYS: Final = {"connection_creation_rate": "INT"}
_VALUE_MAX: Final = {"LONG": 2.0**63, "INT": 2.0**31 - 1}
_FRACTION_MAX: Final = 1e-6
_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9_-]{1,63})*\.?"
)
_MATCH_EXACT, _MATCH_DEFAULT, _MATCH_SPECIFIED = range(3)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, text)


# --- changes ------------------------------------------------------------------------------------


def alter_client_quotas(
    draft: Draft, request: "AlterClientQuotasRequest", _services: Services
) -> HandlerResult | ApiError:
    """Set and remove quotas; a row per entity, each accepted or refused on its own.

    A repeated entity, or an entity with a repeated key, is refused as a whole; Kafka applies the
    first one and returns an error all the same.
    """
    target = Draft(draft.image, draft.base_offset) if request.validate_only else draft
    entries: dict[QuotaKey, EntryData] = {}
    errors: dict[QuotaKey, ApiError] = {}
    for entry in request.entries:
        key: QuotaKey = tuple(sorted(_entity(entry), key=lambda part: part[0]))
        names = [str(op.key) for op in entry.ops]
        if key in entries or len(set(names)) < len(names):
            errors[key] = _invalid(f"Ignoring duplicate entity {_shown(key)}")
        entries[key] = entry
    for key, entry in entries.items():
        if key not in errors:
            errors[key] = _alter_entity(target, entry) or ApiError(ErrorCode.none)
        if len(target.records) > RECORDS_PER_BATCH_MAX:
            return RECORDS_EXCEEDED
    return HandlerResult(_alter_response(list(entries.values()), [errors[key] for key in entries]))


def alter_client_quotas_error(request: "AlterClientQuotasRequest", error: ApiError) -> Entity:
    """The response with this error for every entity."""
    return _alter_response(request.entries, [error] * len(request.entries))


def _alter_response(entries: Sequence["EntryData"], errors: Sequence[ApiError]) -> Entity:
    return _alter.AlterClientQuotasResponse(
        throttle_time=NO_TIME,
        entries=tuple(
            _alter.EntryData(
                error_code=error.code,
                error_message=error.message,
                entity=tuple(
                    _alter.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ),
            )
            for entry, error in zip(entries, errors, strict=True)
        ),
    )


def _entity(entry: "EntryData") -> list[tuple[str, str | None]]:
    return [(str(part.entity_type), part.entity_name) for part in entry.entity]


def _shown(entity: tuple[tuple[str, str | None], ...]) -> str:
    """The entity as in Kafka's error texts."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _alter_entity(target: Draft, entry: "EntryData") -> ApiError | None:
    """Write the changed quotas of one entity, all of them or none."""
    entity = _entity(entry)
    error = _entity_error(entity)
    if error is not None:
        return error
    keys = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    key: QuotaKey = tuple(sorted(entity, key=lambda part: part[0]))
    current: Mapping[str, float] = target.image.client_quotas.get(key, {})
    records = []
    for op in entry.ops:
        name = str(op.key)
        parts = tuple(QuotaEntity(entity_type=kind, entity_name=value) for kind, value in entity)
        if op.remove:
            if name in current:
                records.append(ClientQuotaRecord(entity=parts, key=name, remove=True))
            continue
        value = float(op.value)
        error = _value_error(keys, name, value)
        if error is not None:
            return error
        if current.get(name) != value:
            records.append(ClientQuotaRecord(entity=parts, key=name, value=value))
    for record in records:
        target.emit(record)
    return None


def _entity_error(  # noqa: PLR0911 - one return per check
    entity: list[tuple[str, str | None]],
) -> ApiError | None:
    """Error of an entity, checked in Kafka's order."""
    if not entity:
        return _invalid("Invalid empty client quota entity")
    seen: set[str] = set()
    for kind, name in entity:
        if kind in seen:
            return _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in _TYPES:
            return _invalid(f"Unhandled client quota entity type: {kind}")
        seen.add(kind)
        if name == "":
            return _invalid(f"Empty {kind} not supported")
    if IP not in seen:
        return None
    if len(seen) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    address = entity[0][1]
    if address is not None and not _is_address(address):
        return _invalid(f"{address} is not a valid IP or resolvable host.")
    return None


def _is_address(text: str) -> bool:
    """True for an IP address or a possible host name: names are not resolved here."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        is_numeric = re.fullmatch(r"[0-9.:]+", text) is not None
        return not is_numeric and _HOST.fullmatch(text) is not None
    return True


def _value_error(keys: dict[str, str], name: str, value: float) -> ApiError | None:
    kind = keys.get(name)
    if kind is None:
        return _invalid(f"Invalid configuration key {name}")
    if value <= 0 or math.isnan(value):
        return _invalid(f"Quota {name} must be greater than 0")
    if kind == "DOUBLE":
        return None
    if value > _VALUE_MAX[kind]:
        article = "an" if kind == "INT" else "a"
        return _invalid(f"Proposed value for {name} is too large for {article} {kind}.")
    if abs(value % 1.0) > _FRACTION_MAX:
        return _invalid(f"{name} cannot be a fractional value.")
    return None


# --- description --------------------------------------------------------------------------------


def describe_client_quotas(
    image: Image, request: "DescribeClientQuotasRequest", _: QueryContext
) -> Entity:
    """The entities that match every component of the filter; if `strict`, with no other part."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in request.components:
        error = _component_error(component, exact, specified)
        if error is not None:
            return describe_client_quotas_error(error)
        kind = str(component.entity_type)
        if int(component.match_type) == _MATCH_SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = component.match
    asked = {*exact, *specified}
    if IP in asked and len(asked) > 1:
        text = (
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
        return describe_client_quotas_error(_invalid(text))
    found = []
    for entity, values in sorted(image.client_quotas.items(), key=_order):
        parts = dict(entity)
        if request.strict and len(parts) != len(asked):
            continue
        is_exact = all(kind in parts and parts[kind] == name for kind, name in exact.items())
        if is_exact and specified <= set(parts):
            found.append(_describe_entry(entity, dict(values.items())))
    return _describe.DescribeClientQuotasResponse(
        throttle_time=NO_TIME, error_code=ErrorCode.none, error_message="", entries=tuple(found)
    )


def describe_client_quotas_error(error: ApiError) -> Entity:
    """The response with this code and text, without entities."""
    return _describe.DescribeClientQuotasResponse(
        throttle_time=NO_TIME,
        error_code=error.code,
        error_message=error.message,
        entries=None,
    )


def _order(item: tuple[QuotaKey, object]) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in item[0]]


def _describe_entry(entity: QuotaKey, values: dict[str, float]) -> Entity:
    return _describe.EntryData(
        entity=tuple(
            _describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ),
        values=tuple(
            _describe.ValueData(key=name, value=value) for name, value in sorted(values.items())
        ),
    )


def _component_error(  # noqa: PLR0911 - one return per check
    component: "ComponentData", exact: dict[str, str | None], specified: set[str]
) -> ApiError | None:
    kind, match_type = str(component.entity_type), int(component.match_type)
    if not kind:
        return _invalid("Invalid empty entity type.")
    if kind in exact or kind in specified:
        return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _TYPES:
        return ApiError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
    if match_type == _MATCH_EXACT:
        if component.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return None
    if match_type not in (_MATCH_DEFAULT, _MATCH_SPECIFIED):
        return _invalid(f"Unknown match type {match_type}")
    if component.match is not None:
        name = "DEFAULT" if match_type == _MATCH_DEFAULT else "SPECIFIED"
        return _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
    return None
