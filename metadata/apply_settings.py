"""Application of records about configs, quotas, producer ids, ACLs, SCRAM and tokens."""

from typing import Any, Final

from msgspec.structs import replace

from metadata.conversion import copied
from metadata.delta import MetadataDelta
from metadata.errors import IllegalRecordError
from metadata.image import Acl, DelegationToken, Image, QuotaKey, ScramCredential
from metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from metadata.schema import Record
from wire.persistent_map import Map
from wire.types import Offset


def _set_config(image: Image, record: ConfigRecord, offset: Offset, delta: MetadataDelta) -> Image:
    del offset
    resource = (record.resource_type, record.resource_name)
    delta.configs.add(resource)
    configs = _with_entry(image.configs, resource, record.name, record.value)
    return image if configs is image.configs else replace(image, configs=configs)


def _set_quota(
    image: Image, record: ClientQuotaRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    key = quota_key(record.entity)
    if not key or len({entity_type for entity_type, _ in key}) != len(key):
        raise IllegalRecordError(record, "the entity has no parts or a type twice")
    delta.client_quotas.add(key)
    value = None if record.remove else record.value
    quotas = _with_entry(image.client_quotas, key, record.key, value)
    return image if quotas is image.client_quotas else replace(image, client_quotas=quotas)


def quota_key(entity: tuple[QuotaEntity, ...]) -> QuotaKey:
    """The key of a quota entity in `Image.client_quotas`: its parts sorted by type."""
    parts = [(part.entity_type, part.entity_name) for part in entity]
    return tuple(sorted(parts, key=lambda part: part[0]))


def _set_producer_ids(
    image: Image, record: ProducerIdsRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    current = image.producer_ids
    if record.next_producer_id < 0 or (current is not None and record.next_producer_id <= current):
        raise IllegalRecordError(record, f"the next producer id is {current} already")
    delta.producer_ids = True
    return replace(image, producer_ids=record.next_producer_id)


def _add_acl(
    image: Image, record: AccessControlEntryRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    delta.acls.add(record.id)
    return replace(image, acls=image.acls.set(record.id, copied(Acl, record)))


def _remove_acl(
    image: Image, record: RemoveAccessControlEntryRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    if record.id not in image.acls:
        raise IllegalRecordError(record, f"no ACL has id {record.id.hex()}")
    delta.acls.add(record.id)
    return replace(image, acls=image.acls.delete(record.id))


def _set_scram(
    image: Image, record: UserScramCredentialRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    key = (record.mechanism, record.name)
    delta.scram.add(key)
    return replace(image, scram=image.scram.set(key, copied(ScramCredential, record)))


def _remove_scram(
    image: Image, record: RemoveUserScramCredentialRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    key = (record.mechanism, record.name)
    if key not in image.scram:
        raise IllegalRecordError(record, "no such credential")
    delta.scram.add(key)
    return replace(image, scram=image.scram.delete(key))


def _set_token(
    image: Image, record: DelegationTokenRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    token = DelegationToken(
        owner=record.owner,
        requester=record.requester,
        renewers=record.renewers,
        issue_timestamp_ms=record.issue_timestamp,
        max_timestamp_ms=record.max_timestamp,
        expiration_timestamp_ms=record.expiration_timestamp,
    )
    delta.delegation_tokens.add(record.token_id)
    tokens = image.delegation_tokens.set(record.token_id, token)
    return replace(image, delegation_tokens=tokens)


def _remove_token(
    image: Image, record: RemoveDelegationTokenRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    # Removing a token that does not exist is legal in Kafka: its manager's replay does nothing.
    del offset
    if record.token_id not in image.delegation_tokens:
        return image
    delta.delegation_tokens.add(record.token_id)
    tokens = image.delegation_tokens.delete(record.token_id)
    return replace(image, delegation_tokens=tokens)


def _with_entry(
    entries: "Map[Any, Map[str, Any]]", owner: Any, key: str, value: Any
) -> "Map[Any, Map[str, Any]]":
    """Set (or with None remove) one key of an owner; an owner without keys is removed."""
    owned = entries.get(owner, _NOTHING)
    if value is not None:
        return entries.set(owner, owned.set(key, value))
    if key not in owned:
        return entries
    owned = owned.delete(key)
    return entries.set(owner, owned) if owned else entries.delete(owner)


_NOTHING: Final[Map[str, Any]] = Map()

SETTINGS_RECORDS: Final[dict[type[Record], Any]] = {
    ConfigRecord: _set_config,
    ClientQuotaRecord: _set_quota,
    ProducerIdsRecord: _set_producer_ids,
    AccessControlEntryRecord: _add_acl,
    RemoveAccessControlEntryRecord: _remove_acl,
    UserScramCredentialRecord: _set_scram,
    RemoveUserScramCredentialRecord: _remove_scram,
    DelegationTokenRecord: _set_token,
    RemoveDelegationTokenRecord: _remove_token,
}
