"""Linearizable reads of metadata over HTTP: `?consistency=linearizable` of the inspection API.

A node that does not lead redirects to the leader, once as a rule; the read then asks there. Each
request has a connection of its own.
"""

import asyncio
import json
from base64 import urlsafe_b64decode
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from jepsen.connections import Address, CallError

ANSWER_BYTES_MAX: Final = 1 << 20
REDIRECTIONS_MAX: Final = 2
TIMEOUT_S: Final = 3.0
"""Longer than the node's own, after which it answers 503."""
LINEARIZABLE: Final = "consistency=linearizable"


class Answer(NamedTuple):
    """A response: status, target of a redirection, body."""

    status: int
    location: str
    body: Any


async def topic_id(address: Address, name: str) -> str | None:
    """Read the id of a topic; None: it does not exist.

    Raises:
        CallError: no answer, or one that no linearizable read can be had.
    """
    found = await _read(address, f"/v1/topics/{name}?{LINEARIZABLE}")
    if found is None:
        return None
    text = found["topic_id"]
    return str(UUID(bytes=urlsafe_b64decode(text + "=" * (-len(text) % 4))))


async def config(address: Address, topic: str, key: str) -> str | None:
    """Read a dynamic config of a topic; None: it is not set, or there is no such topic.

    Raises:
        CallError: as `topic_id`.
    """
    found = await _read(address, f"/v1/configs/topic/{topic}?{LINEARIZABLE}")
    return None if found is None else found["configs"].get(key)


async def _read(address: Address, target: str) -> Any | None:
    """Body of the answer, None if the resource does not exist."""
    for _ in range(1 + REDIRECTIONS_MAX):
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await _get(address, target)
        except TimeoutError as error:
            raise CallError("timeout", is_sent=True) from error
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise CallError(f"closed: {error}", is_sent=True) from error
        if answer.status == HTTPStatus.OK:
            return answer.body
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.TEMPORARY_REDIRECT:
            raise CallError(f"{answer.status}: {answer.body.get('detail')}", is_sent=True)
        url = urlsplit(answer.location)
        assert url.hostname is not None, f"{answer.location=}"
        assert url.port is not None, f"{answer.location=}"
        address, target = Address(url.hostname, url.port), f"{url.path}?{url.query}"
    raise CallError("nobody leads: redirected again and again", is_sent=True)


async def _get(address: Address, target: str) -> Answer:
    reader, writer = await asyncio.open_connection(*address)
    try:
        host = f"{address.host}:{address.port}"
        request = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        body = await reader.read(ANSWER_BYTES_MAX)
        while more := await reader.read(ANSWER_BYTES_MAX):
            body += more
    finally:
        writer.transport.abort()
    fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
    return Answer(int(head[0].split(" ")[1]), fields.get("Location", ""), json.loads(body))
