"""Errors in answers of the kernel, in each of the forms that an answer has."""

from typing import Any

import pytest

from network.answers import Encoded, NoResponse
from network.served_requests import ServedRequests, Timed
from wire.api_keys import API_VERSIONS, CREATE_TOPICS, FETCH, METADATA, PRODUCE
from wire.connections.connection import Request
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.conversion import default_entity
from wire.messages.fetch_messages import FetchResponse

NEW: Any = codec.newest(CREATE_TOPICS, "response")


def created(*codes: ErrorCode) -> Any:
    row = default_entity(NEW.CreatableTopicResult)
    import dataclasses

    rows = tuple(dataclasses.replace(row, error_code=code) for code in codes)
    return dataclasses.replace(default_entity(NEW.CreateTopicsResponse), topics=rows)


EXISTS = ErrorCode.topic_already_exists
BODY = created(EXISTS, ErrorCode.none, EXISTS)


@pytest.mark.parametrize(
    ("api_key", "answer", "errors"),
    [
        (CREATE_TOPICS, BODY, {36: 2, 0: 1}),
        (CREATE_TOPICS, Encoded(codec.encode_response(CREATE_TOPICS, 7, 1, BODY)), {36: 2, 0: 1}),
        (METADATA, Encoded(b"not looked at"), {0: 1}),
        (CREATE_TOPICS, Encoded(b"\0\0"), {}),
        (PRODUCE, NoResponse("why"), {}),
        (FETCH, FetchResponse(), {0: 2}),
        (FETCH, FetchResponse(error_code=74), {0: 1, 74: 1}),
        (FETCH, FetchResponse(top_error_code=31), {31: 1}),
    ],
)
def test_errors(api_key: int, answer: Any, errors: dict[int, int]) -> None:
    found = ServedRequests()
    request = Request(api_key, 7, 1, None, None, 0, None, b"")
    found.answered(request, answer, Timed(0, 0, is_counted=False))
    assert found.errors == {(api_key, code): count for code, count in errors.items()}


def test_versions_that_an_api_has_not_are_counted_as_one() -> None:
    found = ServedRequests()
    for version in (0, 4, 5, 99, -3):
        times = Timed(0, 0, is_counted=True)
        times.handled_ns = 0
        request = Request(API_VERSIONS, version, 1, None, None, 0, None, b"")
        found.answered(request, NoResponse("why"), times)
    assert found.requests == {(API_VERSIONS, 0): 1, (API_VERSIONS, 4): 1, (API_VERSIONS, -1): 3}
