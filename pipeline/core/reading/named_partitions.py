"""Check of options that name topics and partitions against those found."""

from collections.abc import Iterable, Iterator

from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import Options


def check_named(present: Iterable[tuple[str, int]], options: Options) -> None:
    """Refuse a name for which nothing would be read silently.

    `subscribePattern` may match future topics, so it names nothing.

    Args:
        present: topic and partition of everything found below the paths, wanted or not.
        options: options of the read.

    Raises:
        BadInputError: subscribe, assign or one of the offset and time options names a topic or
            partition that is not below the paths.
    """
    partitions = set(present)
    topics = {topic for topic, _ in partitions}
    where = ", ".join(options.paths)
    missing = [topic for topic in options.subscribe or () if topic not in topics]
    if missing:
        raise BadInputError(f"{where}: no partition of {', '.join(sorted(missing))}")
    for option, topic, numbers in _named(options):
        if topic not in topics:
            raise BadInputError(f"{where}: no partition of {topic}, which {option} names")
        absent = [number for number in numbers if (topic, number) not in partitions]
        if absent:
            raise BadInputError(f"{where}: no partition {topic}-{absent[0]}, which {option} names")


def _named(options: Options) -> Iterator[tuple[str, str, Iterable[int]]]:
    for option, value in (
        ("assign", options.assign),
        ("startingOffsets", options.starting_offsets),
        ("endingOffsets", options.ending_offsets),
        ("startingOffsetsByTimestamp", options.starting_offsets_by_timestamp),
        ("endingOffsetsByTimestamp", options.ending_offsets_by_timestamp),
    ):
        if isinstance(value, dict):
            for topic, numbers in value.items():
                yield option, topic, numbers
