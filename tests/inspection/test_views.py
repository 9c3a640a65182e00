"""Views of made-up images: what no running cluster of the tests has."""

import msgspec
from immutables import Map

from inspection.diff import diff_changes
from inspection.record_views import record_views
from inspection.resources import image_view
from inspection.views import HIDDEN, acl_views, endpoint_views, scram_views
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image
from metadata.record_codec import encode
from metadata.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    RegisteredEndpoint,
    UserScramCredentialRecord,
)
from metadata.schema import Record
from wire.batches.batch import encode_batch
from wire.types import Offset

SECRET = "hunter2"
RECORDS = (
    ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value=SECRET),
    ConfigRecord(resource_type=4, resource_name="1", name="some.plugin.token", value=SECRET),
    ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value="compact"),
    UserScramCredentialRecord(
        name="alice",
        mechanism=1,
        salt=SECRET.encode(),
        stored_key=SECRET.encode(),
        server_key=SECRET.encode(),
        iterations=4096,
    ),
)


def image_of(*records: Record) -> Image:
    image = EMPTY
    for offset, record in enumerate(records):
        image = apply(image, record, Offset(offset), MetadataDelta())
    return image


def test_secrets_leave_neither_as_image_nor_as_record_nor_as_diff() -> None:
    image = image_of(*RECORDS)
    content = encode_batch([encode(record, 0) for record in RECORDS], 0, 1, 0)
    shown = msgspec.json.encode(
        [image_view(image), list(record_views(content, 0)), diff_changes(EMPTY, image)]
    )
    assert SECRET.encode() not in shown
    assert b"compact" in shown
    assert HIDDEN.encode() in shown
    assert b"alice" in shown


def test_a_changed_secret_is_a_change() -> None:
    before = image_of(RECORDS[0])
    after = image_of(msgspec.structs.replace(RECORDS[0], value="other"))
    (change,) = diff_changes(before, after)
    assert (change.kind, change.key, change.change) == ("config", "broker/1", "changed")


def test_an_unknown_record_is_shown_in_hex() -> None:
    value = bytes.fromhex("01ff0700aabb")  # frame 1, api key 1023, version 0
    (view,) = record_views(encode_batch([value], 5, 2, 7), 5)
    assert view.offset == 5
    assert view.type in ("UNKNOWN_RECORD", "UNREADABLE_RECORD")
    assert view.hex is not None
    assert "aabb" in view.hex


def test_quotas_of_a_default_entity_have_a_null_name() -> None:
    key = (("client-id", None), ("user", "alice"))
    image = Image(client_quotas=Map({key: Map({"producer_byte_rate": 1.5})}))
    (quota,) = image_view(image).client_quotas
    assert quota.entity == {"client-id": None, "user": "alice"}
    assert quota.quotas == {"producer_byte_rate": 1.5}


def test_acls_and_credentials_are_in_kafkas_words() -> None:
    entry = AccessControlEntryRecord(
        id=bytes(16),
        resource_type=3,
        resource_name="g",
        pattern_type=4,
        principal="User:bob",
        host="*",
        operation=10,
        permission_type=2,
    )
    (acl,) = acl_views(image_of(entry))
    words = (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
    assert words == ("GROUP", "PREFIXED", "DESCRIBE_CONFIGS", "DENY")
    (newer,) = acl_views(image_of(msgspec.structs.replace(entry, operation=99)))
    assert newer.operation == "99", "newer software knows its word"
    (credential,) = scram_views(image_of(RECORDS[3]))
    assert (credential.user, credential.mechanism) == ("alice", "SCRAM-SHA-256")
    (endpoint,) = endpoint_views(
        (RegisteredEndpoint(name="EXTERNAL", host="h", port=1, security_protocol=3),)
    )
    assert endpoint.security_protocol == "SASL_SSL"
