"""Records of coordinators as Kafka's dump tool prints them.

    key: {"type":"1","data":{"group":"g","topic":"t","partition":0}}
    payload: {"version":"4","data":{"offset":5,...}}

Fields of the version in declaration order; a tagged field only when it differs from its default;
UUIDs in URL-safe base64, bytes in base64. (apache/kafka: tools/.../CoordinatorRecordMessageParser,
the generated *JsonConverter classes.)
"""

from base64 import b64encode
from typing import Any

from coordinator.records.codec import Decoded
from coordinator.records.schema import ArrayOf, Fields, FieldType, fields_of
from metadata.json_form import uuid_text
from metadata.schema import BYTES, UUID


def content_of(found: Decoded, key_type: int) -> dict[str, Any]:
    """Key and value as the tool prints them: {"key": {...}, "value": {...} or None}."""
    key = {"type": str(key_type), "data": struct_to_json(found.record.key, 0)}
    value = found.record.value
    if value is None or found.version is None:
        return {"key": key, "value": None}
    data = struct_to_json(value, found.version)
    return {"key": key, "value": {"version": str(found.version), "data": data}}


def struct_to_json(value: Fields, version: int) -> dict[str, Any]:
    """The fields of one struct."""
    found: dict[str, Any] = {}
    for spec in fields_of(type(value)):
        content = getattr(value, spec.name)
        if not spec.is_in_version(version) or (spec.is_tagged and content == spec.default):
            continue
        found[spec.json_name] = _content_to_json(content, spec.rule.type, version)
    return found


def _content_to_json(content: Any, type_: FieldType, version: int) -> Any:
    if content is None:
        return None
    if isinstance(type_, ArrayOf):
        return [_content_to_json(item, type_.element, version) for item in content]
    if isinstance(type_, type):
        return struct_to_json(content, version)
    if type_ is UUID:
        return uuid_text(content)
    return b64encode(content).decode() if type_ is BYTES else content
