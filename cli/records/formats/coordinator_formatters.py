"""Records of `__consumer_offsets` and `__transaction_state` as Kafka's formatters print them.

Source: apache/kafka: tools/.../consumer/CoordinatorRecordMessageFormatter.java, 4.3: one JSON
object after the other, without line ends; records of other types are left out.
"""

import struct
from typing import Final

import msgspec

from cli.records.clients.fetcher import Fetched
from cli.records.formats.deserializers import DeserializeError
from cli.records.formats.formatter_names import COORDINATOR_FORMATTERS
from pipeline.core.records.coordinator_records import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    CoordinatorRecordError,
    Decoder,
    coordinator_decoder,
)

_TYPE: Final = struct.Struct(">h")
_PRINTED: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "OffsetsMessageFormatter": (CONSUMER_OFFSETS, (0, 1)),
    "GroupMetadataMessageFormatter": (CONSUMER_OFFSETS, (2,)),
    "TransactionLogMessageFormatter": (TRANSACTION_STATE, (0,)),
}
"""Topic and types of keys by class."""
assert tuple(_PRINTED) == COORDINATOR_FORMATTERS


class CoordinatorFormatter:
    """One of the classes."""

    def __init__(self, name: str) -> None:
        """Take a name of COORDINATOR_FORMATTERS."""
        topic, self._types = _PRINTED[name]
        decode = coordinator_decoder(topic)
        assert decode is not None, f"{topic=} has a decoder"
        self._decode: Decoder = decode

    def format(self, fetched: Fetched) -> bytes:
        """The object for a record; nothing for one of another type or without a key.

        Raises:
            DeserializeError: the record is cut or of a version that is not known.
        """
        record = fetched.record
        if record.key is None:
            return b""
        try:
            (kind,) = _TYPE.unpack_from(record.key)
            if kind not in self._types:
                return b""
            content = self._decode(record.key, record.value).content
        except (CoordinatorRecordError, struct.error) as error:
            raise DeserializeError(
                f"Could not read record at offset {record.offset} due to: {error}"
            ) from error
        value = content["value"]
        shown = {
            "key": {"type": kind, "data": content["key"]["data"]},
            "value": value and {"version": int(value["version"]), "data": value["data"]},
        }
        return msgspec.json.encode(shown)
