"""Records as Kafka's dump tool prints them (`kafka-dump-log --cluster-metadata-decoder`).

    {"type":"TOPIC_RECORD","version":0,"data":{"name":"foo","topicId":"EBESExQVFhcYGRobHB0eHw"}}

Fields of the version in declaration order; a tagged field only when it differs from its default;
UUIDs in URL-safe base64 without padding, bytes in base64. (apache/kafka: the generated
*JsonConverter classes.)
"""

import base64
import json
from typing import Any, Final

from metadata.schema import (
    BYTES,
    UUID,
    ArrayOf,
    FieldType,
    Record,
    UnknownRecord,
    WireStruct,
    fields_of,
    is_in_version,
)


def to_json(record: Record, version: int) -> dict[str, Any]:
    """The record as a JSON value in the key order of Kafka's tool.

    An UnknownRecord has type UNKNOWN_RECORD and its body in hex; Kafka's tool fails there.
    """
    if isinstance(record, UnknownRecord):
        return {
            "type": "UNKNOWN_RECORD",
            "version": record.version,
            "data": {"apiKey": record.unknown_api_key, "hex": record.body.hex()},
        }
    return {
        "type": record.type_name,
        "version": version,
        "data": struct_to_json(record, version),
    }


def to_json_text(record: Record, version: int) -> str:
    """The line that Kafka's tool prints after `payload:`."""
    return json.dumps(to_json(record, version), separators=(",", ":"), ensure_ascii=False)


def struct_to_json(value: WireStruct, version: int) -> dict[str, Any]:
    """The fields of one struct; unknown tagged fields are not shown, as in Kafka."""
    out: dict[str, Any] = {}
    for spec in fields_of(type(value)):
        if not is_in_version(spec, version):
            continue
        content = getattr(value, spec.name)
        if spec.tag is not None and content == spec.default:
            continue
        out[spec.json_name] = _content_to_json(content, spec.type, version)
    return out


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka prints it: 22 characters of URL-safe base64."""
    assert len(uuid) == 16, f"{len(uuid)=}"
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's form.

    Raises:
        ValueError: not 22 characters of URL-safe base64.
    """
    if len(text) != _UUID_TEXT_CHARACTERS:
        raise ValueError(f"a uuid has 22 characters, {text!r} has {len(text)}")
    return base64.b64decode(text + "==", altchars=b"-_", validate=True)


def _content_to_json(content: Any, type_: FieldType, version: int) -> Any:
    if content is None:
        return None
    if isinstance(type_, ArrayOf):
        return [_content_to_json(item, type_.element, version) for item in content]
    if isinstance(type_, type):
        return struct_to_json(content, version)
    if type_ is UUID:
        return uuid_text(content)
    if type_ is BYTES:
        return base64.b64encode(content).decode()
    return content


_UUID_TEXT_CHARACTERS: Final = 22
