"""The error for a record that contradicts the image it is applied to."""

from metadata.schema import Record


class IllegalRecordError(Exception):
    """A committed record contradicts the image: fatal for the replica that applies it."""

    def __init__(self, record: Record, reason: str) -> None:
        super().__init__(f"{type(record).__name__} is illegal: {reason}; {record!r}")
        self.record = record
        self.reason = reason
