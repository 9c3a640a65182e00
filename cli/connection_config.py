"""Configs of a command's connections: `--command-config`, and `key=value` of the command line.

`client.id` and `request.timeout.ms` of Kafka's clients; more than PLAINTEXT is refused. All others
are for those who read them: producers and consumers.
"""

from typing import Any, Final

import msgspec

from cli.arguments import TEXT_CHARACTERS_MAX, UsageError

CLIENT_ID: Final = "kraftline-cli"
REQUEST_TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MIN: Final = 1
"""Sockets do not wait at all for 0."""
_FILES: Final = ("command_config", "admin_config", "consumer_config", "producer_config")
_WORDS: Final = ("command_property", "consumer_property", "producer_property", "producer_props")


class ConnectionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Named as Kafka's client configs."""

    client_id: str = CLIENT_ID
    request_timeout_ms: int = REQUEST_TIMEOUT_MS


def connection_config(options: Any) -> ConnectionConfig:
    """The configs that the options name, by a file or by themselves.

    Args:
        options: Parsed; `request_timeout_ms`, if there is one, is a limit of each request too.

    Raises:
        UsageError: the file cannot be read, a value is impossible, or not PLAINTEXT is wanted.
    """
    found = _read(options)
    limit_ms = getattr(options, "request_timeout_ms", None)
    timeout_ms = found.request_timeout_ms
    timeout_ms = timeout_ms if limit_ms is None else min(timeout_ms, limit_ms)
    return msgspec.structs.replace(found, request_timeout_ms=max(timeout_ms, TIMEOUT_MS_MIN))


def _read(options: Any) -> ConnectionConfig:
    file = next((each for name in _FILES if (each := getattr(options, name, None))), None)
    words = [word for name in _WORDS for word in getattr(options, name, None) or ()]
    if file is None and not words:
        return ConnectionConfig()
    from cli.records.clients.client_configs import (  # noqa: PLC0415  # only if there are any
        number_of,
        properties_of,
    )

    properties = properties_of(file, words)
    client_id = properties.get("client.id", CLIENT_ID)
    if len(client_id) > TEXT_CHARACTERS_MAX:
        raise UsageError(f"client.id has more than {TEXT_CHARACTERS_MAX} characters")
    return ConnectionConfig(
        client_id=client_id,
        request_timeout_ms=number_of(properties, "request.timeout.ms", REQUEST_TIMEOUT_MS),
    )
