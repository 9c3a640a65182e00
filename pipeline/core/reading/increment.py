"""Records of partitions behind their watermarks: a read that goes on where the last ended.

A watermark is a `stream.Point`: topic id, next offset, and the leader epoch of the batch before it.
By these the log that is met is known to be the one that was read; if not, nothing is planned:

    another topic id       the topic was deleted and created again: read from its start, if the
                           cluster is known to be the same
    log start above it     records are gone: refused, or passed over where the caller says so
    log end below it,      what was read was cut or replaced: refused
    another leader epoch
    no such partition      it was deleted, or its folder was not given: its watermark stays

Offsets are half-open, and planned ranges end between batches, so each byte of a log is read once.
"""

from collections.abc import Mapping

import msgspec

from pipeline.core.errors import BadInputError, DataLossError
from pipeline.core.reading.discovery import UNKNOWN_TOPIC, Listing
from pipeline.core.reading.named_partitions import check_named
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import Piece
from pipeline.core.reading.stream import (
    Point,
    Problem,
    Replica,
    check_start,
    log_start_point,
    packs_between,
    replicas_in,
)

Points = dict[tuple[str, int], Point]
DELETED = "deleted"
RECREATED = "recreated"
RETENTION = "retention"
GAP = "gap"


class Increment(msgspec.Struct, frozen=True):
    """New pieces, in the order of topic, partition and offset, and the watermarks after them.

    `lost` are ranges that are gone and were passed over; `recreated` are topics read anew from
    their start; `deleted` are known partitions that are not there; `notes` name copies that were
    left out, since they are of another topic than the one that is read on.
    """

    pieces: tuple[Piece, ...]
    points: Points
    lost: tuple[Problem, ...] = ()
    recreated: tuple[Problem, ...] = ()
    deleted: frozenset[tuple[str, int]] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that are read."""
        return sum(piece.split.size for piece in self.pieces)


@input_errors()
def plan_increment(
    listing: Listing, options: Options, known: Mapping[tuple[str, int], Point], *,
    is_same_cluster: bool, passes_lost: bool,
) -> Increment:  # fmt: skip
    """Plan the read of all behind the watermarks.

    Args:
        listing: everything found below the paths.
        options: options of the read, with replicas=one; starts and ends in them do not count.
        known: watermarks; partitions without one are read from their log's start.
        is_same_cluster: the watermarks and the listing are known to be of one cluster.
        passes_lost: go on behind records that are gone.

    Raises:
        DataLossError: what was read was cut, replaced, or is of another topic; records are gone
            and `passes_lost` is not set.
        BadInputError: files outside any partition directory, a file that cannot be read, an option
            that names a partition nobody knows, a high watermark that is asked for and not known.
        CorruptSegmentError: in mode FAILFAST, damage behind the last sound batch.
    """
    assert options.replicas == "one", options.replicas
    found = [(one.topic, one.partition) for one in listing.partitions if one.segments]
    if any(topic == UNKNOWN_TOPIC for topic, _ in found):
        raise BadInputError(
            f"{', '.join(options.paths)}: files outside any partition directory have no watermark"
        )
    check_named({*found, *known}, options)
    listing, notes = _of_known_topics(listing, known)
    current = replicas_in(listing, options, needs_watermark=options.until is not None)
    wanted = {key: point for key, point in known.items() if options.wants(*key)}
    lenient = msgspec.structs.replace(options, fail_on_data_loss=False)
    first, problems = check_start(wanted, current, lenient)
    ends = {key: _end(replica, first.get(key)) for key, replica in current.items()}
    packs, gaps = packs_between(first, ends, current, lenient)
    lost = []
    for problem in (*problems, *gaps):
        if problem.reason in (RETENTION, GAP):
            lost.append(problem)
        elif problem.reason not in (DELETED, RECREATED):
            raise DataLossError(f"{_name(problem)}: {problem.detail}")
    if lost and not passes_lost:
        raise DataLossError(f"{_name(lost[0])}: {lost[0].detail}")
    recreated = tuple(one for one in problems if one.reason == RECREATED)
    if recreated and not is_same_cluster:
        raise DataLossError(
            f"{_name(recreated[0])}: {recreated[0].detail}, or another cluster's: no"
            " meta.properties says which"
        )
    return Increment(
        tuple(piece for pack in packs for piece in pack), {**known, **ends}, tuple(lost), recreated,
        frozenset((one.topic, one.partition) for one in problems if one.reason == DELETED),
        notes,
    )  # fmt: skip


def _of_known_topics(
    listing: Listing, known: Mapping[tuple[str, int], Point]
) -> tuple[Listing, tuple[str, ...]]:
    """Leave out copies of another topic id where one of the known id is there.

    Else the one that is longer at the moment would be read, and in turn each from its start.
    """
    ids = {key: point.topic_id for key, point in known.items() if point.topic_id}
    there = {
        (one.topic, one.partition) for one in listing.partitions
        if one.segments and one.topic_id is not None
        and ids.get((one.topic, one.partition)) == one.topic_id
    }  # fmt: skip
    kept, notes = [], []
    for one in listing.partitions:
        key = one.topic, one.partition
        if key in there and one.topic_id not in (None, ids[key]):
            notes.append(
                f"{one.directory}: of topic id {one.topic_id}, left out: {ids[key]} is read on"
            )
        else:
            kept.append(one)
    return msgspec.structs.replace(listing, partitions=tuple(kept)), tuple(notes)


def _end(replica: Replica, start: Point | None) -> Point:
    """The watermark after the read; a copy whose committed end is behind has nothing new."""
    begin = log_start_point(replica) if start is None else start
    if not begin.topic_id and replica.files.topic_id is not None:  # it was not known before
        begin = msgspec.structs.replace(begin, topic_id=replica.files.topic_id)
    if replica.end.offset <= begin.offset:
        return begin
    return msgspec.structs.replace(begin, offset=replica.end.offset, epoch=replica.end.epoch)


def _name(problem: Problem) -> str:
    return f"{problem.topic}-{problem.partition}"
