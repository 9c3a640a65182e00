"""Client configs of the records tools: files, `key=value`, and Kafka's checks of their values."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cli.admin.controller_properties import read_properties_file
from cli.arguments import INT32_MAX, INT64_MAX, UsageError, shortened
from cli.records.clients.producer import ALL, ProducerConfig
from wire.batches.compression import Codec

_BITS: Final = {"INT": INT32_MAX, "LONG": INT64_MAX}
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_ACKS: Final = {"all": ALL, "-1": ALL, "0": 0, "1": 1}
_LENGTH_MAX: Final = 20
_NUMBERS: Final[dict[str, tuple[str, int]]] = {
    "linger.ms": ("LONG", 0),
    "batch.size": ("INT", 0),
    "retries": ("INT", 0),
    "retry.backoff.ms": ("LONG", 0),
    "request.timeout.ms": ("INT", 0),
    "delivery.timeout.ms": ("INT", 0),
    "max.block.ms": ("LONG", 0),
    "max.request.size": ("INT", 0),
    "buffer.memory": ("LONG", 0),
    "transaction.timeout.ms": ("INT", 0),
    "metadata.max.age.ms": ("LONG", 0),
    "send.buffer.bytes": ("INT", -1),
    "receive.buffer.bytes": ("INT", -1),
    "max.in.flight.requests.per.connection": ("INT", 1),
    "fetch.max.wait.ms": ("INT", 0),
    "fetch.min.bytes": ("INT", 0),
    "fetch.max.bytes": ("INT", 0),
    "max.partition.fetch.bytes": ("INT", 0),
    "max.poll.records": ("INT", 1),
    "max.poll.interval.ms": ("INT", 1),
    "session.timeout.ms": ("INT", 0),
    "heartbeat.interval.ms": ("INT", 0),
    "auto.commit.interval.ms": ("INT", 0),
}
"""Config -> type and lowest value."""


def properties_of(file: str | None, words: Sequence[str]) -> dict[str, str]:
    """The properties of a file, and those of the command line, which take precedence.

    Raises:
        UsageError: the file cannot be read, or wants more than PLAINTEXT.
    """
    found = {} if file is None else read_properties_file(Path(file))
    found.update(pairs(words))
    protocol = found.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise UsageError(f"security.protocol {shortened(protocol)} is not spoken, PLAINTEXT is")
    return found


def pairs(words: Iterable[str]) -> dict[str, str]:
    """`key=value` of the command line; without `=` the value is empty."""
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def flag_of(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A boolean config.

    Raises:
        UsageError: neither true nor false.
    """
    value = properties.get(name, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise _invalid(properties[name], name, "Expected value to be either true or false")
    return value == "true"


def number_of(properties: Mapping[str, str], name: str, default: int) -> int:
    """A config that is a number.

    Raises:
        UsageError: not a number of its type, or too low.
    """
    if name not in properties:
        return default
    kind, low = _NUMBERS[name]
    value = properties[name].strip()
    digits = value.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < _LENGTH_MAX
    if not is_number or abs(int(value)) > _BITS[kind]:
        raise _invalid(value, name, f"Not a number of type {kind}")
    if int(value) < low:
        raise _invalid(value, name, f"Value must be at least {low}")
    return int(value)


def one_of(properties: Mapping[str, str], name: str, known: Sequence[str], default: str) -> str:
    """A config with few values.

    Raises:
        UsageError: another value.
    """
    value = properties.get(name, default)
    if value not in known:
        raise _invalid(value, name, f"String must be one of: {', '.join(known)}")
    return value


def _invalid(value: str, name: str, why: str) -> UsageError:
    return UsageError(f"Invalid value {shortened(value)} for configuration {name}: {why}")


def producer_config(properties: Mapping[str, str]) -> ProducerConfig:
    """The configs of a producer.

    Raises:
        UsageError: a value is impossible, or two do not fit.
    """
    for name in _NUMBERS:
        number_of(properties, name, 0)
    defaults = ProducerConfig()
    acks = _ACKS[one_of(properties, "acks", tuple(_ACKS), "all")]
    retries = number_of(properties, "retries", defaults.retries)
    in_flight = number_of(properties, "max.in.flight.requests.per.connection", 5)
    is_wanted = flag_of(properties, "enable.idempotence", default=True)
    why_not = {
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot "
        "guarantee idempotence.": acks != ALL,
        "Must set retries to non-zero when using the idempotent producer.": not retries,
        "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent "
        "producer.": in_flight > _IN_FLIGHT_MAX,
    }
    if "enable.idempotence" in properties and is_wanted:
        for text, is_so in why_not.items():
            if is_so:
                raise UsageError(text)
    linger_ms = number_of(properties, "linger.ms", defaults.linger_ms)
    request_timeout_ms = number_of(properties, "request.timeout.ms", defaults.request_timeout_ms)
    delivery_timeout_ms = number_of(
        properties,
        "delivery.timeout.ms",
        max(defaults.delivery_timeout_ms, linger_ms + request_timeout_ms),
    )
    if delivery_timeout_ms < linger_ms + request_timeout_ms:
        raise UsageError(
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    codec = one_of(properties, "compression.type", tuple(_CODECS), "none")
    return ProducerConfig(
        acks=acks,
        codec=_CODECS[codec],
        batch_size_bytes=number_of(properties, "batch.size", defaults.batch_size_bytes),
        linger_ms=linger_ms,
        retries=retries,
        retry_backoff_ms=number_of(properties, "retry.backoff.ms", defaults.retry_backoff_ms),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        max_block_ms=number_of(properties, "max.block.ms", defaults.max_block_ms),
        max_request_bytes=number_of(properties, "max.request.size", defaults.max_request_bytes),
        is_idempotent=is_wanted and not any(why_not.values()),
    )


_IN_FLIGHT_MAX: Final = 5


def deprecated(options: Namespace, names: Mapping[str, str], form: str) -> str:
    """One line for each deprecated flag that is given: flag -> the flag instead."""
    return "".join(
        form.format(old, new)
        for old, new in names.items()
        if getattr(options, old.replace("-", "_").replace(".", "_"))
    )
