"""Texts of keys and values of records for `dump-log`, by the decoder that is asked for.

apache/kafka: core/.../tools/DumpLogSegments.scala (MessageParser), 4.3
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from cli.offline.dump_log import INTEGERS, LONGS, STRINGS
from cli.offline.dump_segment import MissingKeyError, RecordPrinter, SkippedRecordError

_VERSION_BYTES: Final = 2


def _string(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def _number(size_bytes: int) -> Callable[[bytes], str]:
    def decode(content: bytes) -> str:
        if len(content) < size_bytes:
            raise ValueError(f"{len(content)} bytes are less than {size_bytes}")
        return str(int.from_bytes(content[:size_bytes], "big", signed=True))

    return decode


CLASSES: Final[Mapping[str, Callable[[bytes], str]]] = {
    STRINGS: _string,
    INTEGERS: _number(4),
    LONGS: _number(8),
}
"""Decoders of `--key-decoder-class` and `--value-decoder-class`, by Kafka's names of them."""


def record_printer(options: Namespace) -> RecordPrinter | None:
    """The decoder that the flags ask for; None for bytes as UTF-8."""
    if options.offsets_decoder or options.transaction_log_decoder:
        return _of_coordinator(is_of_offsets=options.offsets_decoder)
    if options.cluster_metadata_decoder:
        return _metadata_record
    if options.key_decoder_class is None and options.value_decoder_class is None:
        return None
    of_key = CLASSES[options.key_decoder_class or STRINGS]
    of_value = CLASSES[options.value_decoder_class or STRINGS]
    return lambda key, value: (
        None if key is None else of_key(key),
        None if value is None else of_value(value),
    )


def _of_coordinator(*, is_of_offsets: bool) -> RecordPrinter:
    from pipeline.core.records import coordinator_records as records  # noqa: PLC0415  # for these

    topic = records.CONSUMER_OFFSETS if is_of_offsets else records.TRANSACTION_STATE
    decode = records.coordinator_decoder(topic)
    assert decode is not None, f"{topic=} has a decoder"

    def describe(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if key is None:
            raise MissingKeyError
        if len(key) < _VERSION_BYTES:
            raise SkippedRecordError("Could not read version from key's buffer.")
        try:
            shown = decode(key, value).content
        except records.UnknownTypeError as error:
            raise SkippedRecordError(str(error), unknown_type=error.number) from error
        except records.CoordinatorRecordError as error:
            is_short = value is not None and len(value) < _VERSION_BYTES
            reason = "Could not read version from value's buffer." if is_short else str(error)
            raise SkippedRecordError(reason) from error
        content = shown["value"]
        payload = "<DELETE>" if content is None else msgspec.json.encode(content).decode()
        return msgspec.json.encode(shown["key"]).decode(), payload

    return describe


def _metadata_record(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Key text and value of a metadata record, the value as Kafka's JSON."""
    from metadata import json_form, record_codec  # noqa: PLC0415  # only this flag needs them
    from metadata.schema import MetadataRecordError  # noqa: PLC0415

    try:
        content = value or b""
        version = record_codec.decoded_version(content)
        shown = json_form.to_json_text(record_codec.decode(content), version)
    except MetadataRecordError as error:
        raise ValueError(str(error)) from error
    return (None if key is None else key.decode("utf-8", errors="replace")), shown
