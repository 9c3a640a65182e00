"""Plan of `groups`: the copies to read, one per partition, and the records to read of them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.groups.log_records import COLUMNS
from pipeline.core.reading.copies import choose_copies
from pipeline.core.reading.discovery import UNKNOWN_TOPIC, Listing, PartitionFiles, discover
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.options import Options, parse_options
from pipeline.core.reading.ranges import PartitionRange, resolve_ranges
from pipeline.core.reading.reader import Piece
from pipeline.core.reading.sound_copies import choose_sound_copies, together
from pipeline.core.reading.split import plan_splits
from pipeline.core.records.coordinator_records import CONSUMER_OFFSETS, TRANSACTION_STATE
from wire.types import METADATA_TOPIC_NAME

COORDINATORS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE)


class LogTask(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's partition: the pieces of its copy, in order, and how to read them."""

    topic: str
    partition: int
    pieces: tuple[Piece, ...]
    options: Options
    names: dict[str, str]
    """Topic names by id."""

    @property
    def bytes(self) -> int:
        """Bytes to read."""
        return sum(piece.split.size for piece in self.pieces)


class DataLogFiles(msgspec.Struct, frozen=True):
    """The copy of a partition whose headers are read, below an exclusive end if one is known."""

    partition: PartitionFiles
    end: int | None

    @property
    def bytes(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.partition.segments)


class GroupsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run reads; `notes` are lines for the user, `bypassed` copies that are damaged."""

    logs: tuple[LogTask, ...]
    data: tuple[DataLogFiles, ...]
    notes: tuple[str, ...] = ()
    bypassed: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that all tasks read."""
        return sum(one.bytes for one in self.logs) + sum(one.bytes for one in self.data)


@input_errors()
def plan_groups(inputs: Sequence[str], mode: str, until: str | None = None) -> GroupsPlan:
    """List the input and choose one copy of each partition.

    Args:
        inputs: log directories, or what is above or below them.
        mode: FAILFAST, or DROPMALFORMED to pass over damage.
        until: high_watermark or end; None: the former where it is known.

    Raises:
        BadInputError: the input cannot be used, or no coordinator's log is below it.
    """
    options = _options(inputs, mode, until)
    listing = discover(inputs, strict=mode == "FAILFAST")
    found = [one for one in listing.partitions if one.segments and one.topic not in _NOT_READ]
    coordinators = [one for one in found if one.topic in COORDINATORS]
    if not coordinators:
        raise BadInputError(f"{', '.join(inputs)}: no partition of {' or '.join(COORDINATORS)}")
    sound = choose_sound_copies(coordinators, options)
    limits = sound.choice.limits
    chosen = Listing(tuple(one for one in coordinators if one.directory in limits))
    ranges, warnings, cut_tails = resolve_ranges(chosen, options, limits)
    names = {one.topic_id: one.topic for one in found if one.topic_id is not None}
    logs = tuple(_log_task(one, options, names) for one in ranges)
    others = [one for one in found if one.topic not in COORDINATORS]
    choice = together(sound.choice, choose_copies(others, options))
    data = [
        DataLogFiles(one, choice.limits[one.directory])
        for one in found
        if one.directory in choice.limits and one.topic != TRANSACTION_STATE
    ]
    notes = (*listing.problems, *warnings, *choice.notes)
    return GroupsPlan(
        logs=logs, data=tuple(data), notes=notes, bypassed=(*sound.bypassed, *cut_tails)
    )


_NOT_READ: Final = (METADATA_TOPIC_NAME, UNKNOWN_TOPIC)


def _options(inputs: Sequence[str], mode: str, until: str | None) -> Options:
    given = {
        "paths": msgspec.json.encode(list(inputs)).decode(), "mode": mode,
        "columns": ",".join(COLUMNS), "includeControl": "true",
        "failOnDataLoss": "false",  # a cleaner may have removed what is between two segments
    }  # fmt: skip
    return parse_options(given | ({} if until is None else {"until": until}))


def _log_task(found: PartitionRange, options: Options, names: dict[str, str]) -> LogTask:
    pieces = tuple(Piece(split, found.selection) for split in plan_splits(found.files))
    return LogTask(
        topic=found.partition.topic, partition=found.partition.partition, pieces=pieces,
        options=options, names=names,
    )  # fmt: skip
