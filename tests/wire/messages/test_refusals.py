"""A response with one error for any request."""

import dataclasses
import typing
from functools import cache
from typing import Any, Final
from uuid import UUID

import pytest

from wire import api_keys
from wire.api_table import SCHEMAS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.conversion import default_of, entity_of, field_types, is_array, is_nullable
from wire.messages.error_codes import error_codes
from wire.messages.refusals import NOT_REFUSED, named_partitions, refusal

ERROR: Final = ErrorCode.not_controller
WITHOUT_ERROR: Final = {(api_keys.DESCRIBE_LOG_DIRS, 1), (api_keys.DESCRIBE_LOG_DIRS, 2)}
"""Kafka answers with no directories."""
KEYS: Final = sorted(
    key
    for key, schema in SCHEMAS.items()
    if schema.broker_range is not None and key not in NOT_REFUSED
)
ID: Final = UUID(int=5)


def filled(entity: type, **values: object) -> Any:
    """An instance with one item in each array, and each text its field's name."""
    found = dict(_filled(entity))
    return entity(**found | values)


@cache
def _filled(entity: type) -> tuple[tuple[str, object], ...]:
    rows = []
    for field in dataclasses.fields(entity):
        field_type = field_types(entity)[field.name]
        nested = entity_of(field_type)
        value: object = default_of(entity, field)
        if is_array(field_type):
            value = (_item(field_type) if nested is None else filled(nested),)
        elif nested is not None and not is_nullable(field_type):
            value = filled(nested)
        elif isinstance(value, str) or field_type == str | None:
            value = field.name
        elif field.name == "topic_id":
            value = ID
        rows.append((field.name, value))
    return tuple(rows)


def _item(field_type: Any) -> object:
    (array,) = [p for p in typing.get_args(field_type) or () if typing.get_origin(p) is tuple] or [
        field_type
    ]
    kind = typing.get_args(array)[0]
    return "item" if issubclass(kind, str) else 7 if issubclass(kind, int) else ID


def sent(api_key: int, version: int, **values: object) -> Any:
    return filled(codec.entity_class(api_key, version, "request"), **values)


def refused(api_key: int, version: int, **values: object) -> Any:
    body = sent(api_key, version, **values)
    return refusal(api_key, version, body, ERROR, "why")


@pytest.mark.parametrize("api_key", KEYS, ids=lambda key: SCHEMAS[key].name)
def test_every_api_is_refused_in_its_first_and_last_version(api_key: int) -> None:
    offered = SCHEMAS[api_key].broker_range
    assert offered is not None
    first = 3 if api_key == api_keys.PRODUCE else offered[0]  # older ones have no class
    more = {"acks": 1} if api_key == api_keys.PRODUCE else {}
    for version in {first, offered[1]}:
        body = refused(api_key, version, **more)
        codes = set(error_codes(body))
        assert codes == (set() if (api_key, version) in WITHOUT_ERROR else {ERROR}), version
        frame = codec.encode_response(api_key, version, 9, body)
        assert codec.decode_response(api_key, version, frame)[0] == 9


def test_a_produce_that_wants_no_answer_has_none() -> None:
    assert refused(api_keys.PRODUCE, 9, acks=0) is None
    assert refused(api_keys.PRODUCE, 9, acks=-1) is not None


def test_each_partition_has_its_row() -> None:
    body = refused(api_keys.PRODUCE, 9, acks=1)
    (topic,) = body.responses
    (row,) = topic.partition_responses
    assert topic.name == "name"
    assert (row.index, row.base_offset, row.error_message) == (0, -1, "why")


def test_a_fetch_has_no_high_watermark_and_no_topics_to_forget() -> None:
    body = refused(api_keys.FETCH, 13)
    assert body.error_code is ERROR
    (topic,) = body.responses
    (row,) = topic.partitions
    assert (topic.topic_id, row.partition_index, row.high_watermark) == (ID, 0, -1)


def test_items_that_are_names_or_numbers() -> None:
    assert refused(api_keys.DELETE_GROUPS, 2).results[0].group_id == "item"
    (topic,) = refused(api_keys.DELETE_TOPICS, 3).responses
    assert topic.name == "item"
    (group,) = refused(api_keys.OFFSET_FETCH, 9).groups
    (topic,) = group.topics
    assert (group.group_id, topic.name, topic.partitions[0].partition_index) == (
        "group_id", "name", 7,
    )  # fmt: skip


def test_items_that_a_request_has_in_groups() -> None:
    (topic,) = refused(api_keys.ALTER_REPLICA_LOG_DIRS, 2).results
    assert (topic.topic_name, topic.partitions[0].partition_index) == ("name", 7)


def test_rows_that_are_not_items_of_the_request_are_left_out() -> None:
    assert refused(api_keys.DESCRIBE_LOG_DIRS, 4).results == ()


def test_an_acl_has_no_name_but_a_row() -> None:
    assert len(refused(api_keys.CREATE_ACLS, 3).results) == 1


def test_the_entity_of_a_quota_is_that_of_the_request() -> None:
    (entry,) = refused(api_keys.ALTER_CLIENT_QUOTAS, 1).entries
    (entity,) = entry.entity
    assert (entity.entity_type, entity.entity_name) == ("entity_type", "entity_name")


def test_a_user_is_a_name_in_the_request() -> None:
    assert refused(api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0).results[0].user == "name"


@pytest.mark.parametrize(
    ("api_key", "version", "named"),
    [
        (api_keys.PRODUCE, 9, [("name", 0)]),
        (api_keys.PRODUCE, 13, [(ID, 0)]),
        (api_keys.FETCH, 12, [("topic", 0), ("topic", 7)]),
        (api_keys.FETCH, 13, [(ID, 0), (ID, 7)]),
        (api_keys.METADATA, 9, [("name", None)]),
        (api_keys.OFFSET_FETCH, 9, [("name", 7)]),
        (api_keys.ADD_PARTITIONS_TO_TXN, 5, [("name", 7)]),
        (api_keys.OFFSET_FOR_LEADER_EPOCH, 4, [("topic", 0)]),
        (api_keys.HEARTBEAT, 4, []),
        (api_keys.DELETE_GROUPS, 2, []),
    ],
)
def test_what_a_request_names(
    api_key: int, version: int, named: list[tuple[str | UUID, int | None]]
) -> None:
    assert list(named_partitions(sent(api_key, version))) == named
