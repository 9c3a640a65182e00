"""The straight-line codec of ApiVersions says what kio says, in every version."""

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v4 import response as v4
from kio.serial import entity_writer

from wire.api_table import SCHEMAS, ListenerKind, api_versions_body, apis
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import api_versions, codec
from wire.messages.conversion import converter

INT16 = st.integers(0, 2**15 - 1)
NAMES = st.text(max_size=200)
ROWS = st.builds(v4.ApiVersion, api_key=INT16, min_version=INT16, max_version=INT16)
SUPPORTED = st.builds(
    v4.SupportedFeatureKey, name=NAMES, min_version=st.integers(0, 3), max_version=INT16
)
FINALIZED = st.builds(
    v4.FinalizedFeatureKey, name=NAMES, max_version_level=INT16, min_version_level=INT16
)
BODIES = st.builds(
    v4.ApiVersionsResponse,
    error_code=st.sampled_from(ErrorCode),
    api_keys=st.lists(ROWS, max_size=200).map(tuple),
    throttle_time=st.integers(0, 10_000).map(lambda ms: timedelta(milliseconds=ms)),
    supported_features=st.lists(SUPPORTED, max_size=4).map(tuple),
    finalized_features_epoch=st.integers(-1, 2**63 - 1),
    finalized_features=st.lists(FINALIZED, max_size=4).map(tuple),
    zk_migration_ready=st.booleans(),
)


def by_kio(version: int, body: Any) -> bytes:
    """Encode with kio; ranges from 0 are not for older clients."""
    if version < 4:
        kept = tuple(f for f in body.supported_features if f.min_version > 0)
        body = replace(body, supported_features=kept)
    entity = codec.entity_class(18, version, "response")
    output = io.BytesIO()
    lower = converter(type(body), entity)  # None: the class is the same
    entity_writer(entity)(output, body if lower is None else lower(body))
    return output.getvalue()


@given(body=BODIES, version=st.integers(0, 4))
def test_equal_to_kio(body: Any, version: int) -> None:
    content = by_kio(version, body)
    assert api_versions.encode_response(version, body) == content
    assert api_versions.encode_response(version, body) == content, "the kept list"
    known = {
        row.api_key: (row.min_version, row.max_version)
        for row in body.api_keys
        if row.api_key in SCHEMAS
    }
    assert codec.decode_version_ranges(version, bytes(4) + content) == known
    is_usual = version >= api_versions.FLEXIBLE_VERSION
    assert api_versions.decode_ranges(version, content) == (known if is_usual else None)


def test_lists_of_one_length_are_not_mixed_up() -> None:
    one = api_versions_body(apis(ListenerKind.BROKER, {3}))
    other = api_versions_body(apis(ListenerKind.BROKER, {19}))
    contents = [api_versions.encode_response(3, body) for body in (one, other, one)]
    assert contents == [by_kio(3, body) for body in (one, other, one)]
    assert contents[0] != contents[1]


@pytest.mark.parametrize("version", [3, 4])
def test_tagged_fields_of_a_row_are_left_to_kio(version: int) -> None:
    body = api_versions_body(apis(ListenerKind.BROKER, {3}))
    content = by_kio(version, body)
    # The first row has one tagged field, number 9, of one byte.
    tagged = content[:9] + b"\x01\x09\x01\x00" + content[10:]
    assert api_versions.decode_ranges(version, tagged) is None
    assert codec.decode_version_ranges(version, bytes(4) + tagged) == {3: (0, 13), 18: (0, 4)}


@pytest.mark.parametrize("version", range(5))
def test_a_cut_response_is_refused(version: int) -> None:
    body = api_versions_body(apis(ListenerKind.BROKER, {3}), {"metadata.version": (7, 27)}, {}, 5)
    content = bytes(4) + by_kio(version, body)
    for end in range(len(content)):
        with pytest.raises(RemoteProtocolError):
            codec.decode_version_ranges(version, content[:end])


@pytest.mark.parametrize("version", range(5))
def test_a_kept_request_is_the_one_that_was_sent(version: int) -> None:
    new = codec.newest(18, "request")
    for name in ("kraftline", "apache-kafka-java", "n" * 300, "kraftline"):
        body = new.ApiVersionsRequest(client_software_name=name, client_software_version="1")
        frame = codec.encode_request(18, version, 7, "c", body)
        header, position = codec.split_request(frame)
        assert header.correlation_id == 7
        decoded = codec.decode_request(18, version, frame[position:])
        assert decoded.client_software_name == (name if version >= 3 else "")
