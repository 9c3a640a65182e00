"""A Fetch of the metadata and a CreateTopics response do without kio's classes where they can."""

import pytest

from wire.api_keys import CREATE_TOPICS, FETCH
from wire.messages import codec, create_topics_response, metadata_fetch
from wire.messages.conversion import default_entity
from wire.messages.fetch_messages import FetchRequest, FetchResponse

FETCH_VERSIONS = (metadata_fetch.FIRST_VERSION, 18)
REQUEST = FetchRequest(fetch_offset=5, max_wait_ms=6, max_bytes=7)
RESPONSE = FetchResponse(leader_id=1, leader_epoch=3, high_watermark=9, records=b"abc")


@pytest.fixture
def no_kio(monkeypatch):
    """Fails a test that reads or writes a body with kio."""
    for name in ("_decode", "_encode"):
        monkeypatch.setattr(codec, name, lambda *_: pytest.fail("kio is asked"))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_of_the_metadata(no_kio, version):
    frame = codec.encode_request(FETCH, version, 7, None, REQUEST)
    _, position = codec.split_request(frame)
    assert codec.read_request(FETCH, version, frame, position) == REQUEST
    frame = codec.encode_response(FETCH, version, 7, RESPONSE)
    assert codec.read_response(FETCH, version, frame) == (7, RESPONSE)


@pytest.mark.parametrize("version", [create_topics_response.FIRST_VERSION, 7])
def test_the_response_to_create_topics(no_kio, version):
    new = codec.newest(CREATE_TOPICS, "response")
    topic = default_entity(new.CreatableTopicResult)
    body = new.CreateTopicsResponse(
        throttle_time=default_entity(new.CreateTopicsResponse).throttle_time, topics=(topic,)
    )
    assert codec.encode_response(CREATE_TOPICS, version, 7, body)
