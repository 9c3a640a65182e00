"""The first frame of each (API, version, direction) that Kafka 3.9.1 and 4.3.1 exchanged.

Each is read and written again, byte for byte; the exceptions are listed with their reason.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    entity_class,
    split_request,
)

LINES = (Path(__file__).parent.parent / "golden" / "wire" / "raw.jsonl").read_text().splitlines()
FRAMES: dict[str, bytes] = {
    line["file"]: bytes.fromhex(line["hex"]) for line in map(json.loads, LINES)
}
NAME = re.compile(r"(\d{3})-(\w+)-v(\d+)-(req|resp)-(3\.9\.1|4\.3\.1)\.bin")


def parsed(name: str) -> tuple[int, int, str]:
    found = NAME.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[3]), found[4]


OLD_FIELDS = {
    (0, 7, "req"), (0, 7, "resp"), (0, 10, "req"), (0, 10, "resp"), (0, 11, "req"), (0, 11, "resp"),
    (1, 11, "req"), (1, 11, "resp"), (3, 10, "req"), (3, 10, "resp"), (8, 3, "req"), (8, 3, "resp"),
    (8, 9, "req"), (8, 9, "resp"), (9, 3, "req"), (9, 3, "resp"), (9, 9, "req"), (9, 9, "resp"),
    (10, 1, "req"), (10, 1, "resp"), (10, 2, "req"), (10, 2, "resp"), (13, 1, "req"),
    (24, 0, "req"), (24, 0, "resp"), (57, 1, "resp"),
}  # fmt: skip
"""Frames with fields that the newest class lacks (names of topics where it has ids, one group
where it has many, results per feature): they are read as every other, and written again as
instances of the class of their own version."""


def rewritten(name: str, frame: bytes) -> bytes:
    api_key, version, direction = parsed(name)
    if direction == "req":
        header, position = split_request(frame)
        assert (header.api_key, header.api_version) == (api_key, version)
        body: Any = decode_request(api_key, version, memoryview(frame)[position:])
        return encode_request(api_key, version, header.correlation_id, header.client_id, body)
    correlation_id, body = decode_response(api_key, version, frame)
    return encode_response(api_key, version, correlation_id, body)


def test_all_frames_are_here() -> None:
    assert len(FRAMES) == 352


@pytest.mark.parametrize("name", FRAMES)
def test_read_and_written_again(name: str) -> None:
    frame = FRAMES[name]
    if parsed(name) in OLD_FIELDS:
        assert rewritten_as_itself(name, frame) == frame
        assert rewritten(name, frame)
    else:
        assert rewritten(name, frame) == frame


def rewritten_as_itself(name: str, frame: bytes) -> bytes:
    api_key, version, direction = parsed(name)
    if direction == "req":
        _, position = split_request(frame)
    else:
        is_flexible = entity_class(api_key, version, "response").__flexible__
        position = 5 if is_flexible else 4  # correlation id and no tagged field
    body_class = entity_class(api_key, version, "request" if direction == "req" else "response")
    body, _ = entity_reader(body_class)(frame, position)
    out = io.BytesIO()
    entity_writer(body_class)(out, body)
    return frame[:position] + out.getvalue()
