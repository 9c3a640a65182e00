"""The straight-line encoder says what kio says, for every version it serves."""

import io
import uuid
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.create_topics.v7 import response as v7
from kio.serial import entity_writer

from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.conversion import converter
from wire.messages.create_topics_response import FIRST_VERSION, encode_create_topics_response

CONFIGS = st.builds(
    v7.CreatableTopicConfigs,
    name=st.text(max_size=20),
    value=st.none() | st.text(max_size=200),
    read_only=st.booleans(),
    config_source=st.integers(-1, 8),
    is_sensitive=st.booleans(),
)
TOPICS = st.builds(
    v7.CreatableTopicResult,
    name=st.text(max_size=200),
    topic_id=st.uuids() | st.none(),
    error_code=st.sampled_from(ErrorCode),
    error_message=st.none() | st.text(max_size=40),
    topic_config_error_code=st.sampled_from([0, 29]),
    num_partitions=st.integers(-1, 2**31 - 1),
    replication_factor=st.integers(-1, 2**15 - 1),
    configs=st.none() | st.lists(CONFIGS, max_size=4).map(tuple),
)


@given(
    topics=st.lists(TOPICS, max_size=3).map(tuple),
    throttle_ms=st.integers(0, 10_000),
    version=st.integers(FIRST_VERSION, 7),
)
def test_equal_to_kio(
    topics: tuple[v7.CreatableTopicResult, ...], throttle_ms: int, version: int
) -> None:
    body = v7.CreateTopicsResponse(throttle_time=timedelta(milliseconds=throttle_ms), topics=topics)
    entity = codec.entity_class(19, version, "response")
    expected = io.BytesIO()
    lower = converter(type(body), entity)  # None: the class is the same
    entity_writer(entity)(expected, body if lower is None else lower(body))
    assert encode_create_topics_response(version, body) == expected.getvalue()


def test_zero_topic_id_of_kio_is_none() -> None:
    topic = v7.CreatableTopicResult(
        name="t", topic_id=None, error_code=ErrorCode.none, error_message=None, configs=None
    )
    body = v7.CreateTopicsResponse(throttle_time=timedelta(0), topics=(topic,))
    assert uuid.UUID(int=0).bytes in encode_create_topics_response(7, body)
