"""The error for a record that contradicts the image it is applied to."""

from metadata.schema import Record


class IllegalRecordError(Exception):
    """A committed record cannot follow the image: fatal for the replica that meets it."""

    def __init__(self, record: Record, reason: str) -> None:
        super().__init__(f"{type(record).__name__} is illegal: {reason}; {record!r}")
        self.record = record
        self.reason = reason
