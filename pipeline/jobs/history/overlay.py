"""Partition events to intervals: vector operations over one chunk of the log at a time.

The open state from earlier chunks, or from the archive, precedes the chunk's events as an event
that sets every field (`carry`). All rows are sorted by key and place. A field has "the last value
that is not none" of its key; leader epoch and partition epoch are those of the last PartitionRecord
plus the changes since. The semantics are those of `metadata.apply`; tests compare both at every
offset.

An interval is valid where `valid_from_offset <= X < valid_to_offset`, X being the last record that
counts. Of several states that one batch gives a key only the last is kept, unless all are wanted.
A topic id is never used twice, so the removal of a topic ends all intervals with its id.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata.json_form import uuid_text
from pipeline.jobs.history.packed_lists import (
    NONE,
    UUID_BYTES,
    Flags,
    Numbers,
    codes,
    nullable,
    numbers_of,
    unpack,
    whole,
)
from pipeline.jobs.history.schema import PARTITION_EVENTS, PARTITION_STATE
from wire.types import DIRECTORY_MIGRATING

LISTS: Final = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing", "directories")
PREVIOUS: Final = ("prev_isr", "prev_replicas", "prev_elr")
CHANGES: Final = ("leader", "isr", "replicas", "elr", "directories")  # bit i of `change`
RESET, CHANGED, CLEARED = range(3)  # `api`: PartitionRecord, PartitionChangeRecord, ClearElrRecord
_FIELDS: Final = ("leader", "recovery")
CLEAR_PLACE: Final = ("visible", "offset", "idx", "batch_offset", "ts", "epoch", "seed")
_PLACE: Final = CLEAR_PLACE
_ID_BITS: Final = 32
_MIGRATING: Final = bytes(DIRECTORY_MIGRATING)


class Frame(msgspec.Struct, frozen=True):
    """Columns of one length: numbers, `NONE` for none, and packed lists, null for none."""

    numbers: dict[str, Numbers]
    packed: dict[str, Any]

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.numbers.values())))

    def take(self, index: Numbers) -> "Frame":
        """Return the rows of an index."""
        chosen = pa.array(index)
        return Frame(
            {name: column[index] for name, column in self.numbers.items()},
            {name: column.take(chosen) for name, column in self.packed.items()},
        )

    def filter(self, mask: Flags) -> "Frame":
        """Return the rows where the mask is true."""
        return self if bool(mask.all()) else self.take(np.flatnonzero(mask))

    @staticmethod
    def concat(frames: Sequence["Frame"]) -> "Frame":
        """Join frames one below the other; a column that a frame lacks is none there."""
        if len(frames) == 1:
            return frames[0]
        names = dict.fromkeys(name for one in frames for name in one.numbers)
        lists = dict.fromkeys(name for one in frames for name in one.packed)
        return Frame(
            {
                name: np.concatenate(
                    [one.numbers.get(name, np.full(len(one), NONE)) for one in frames]
                )
                for name in names
            },
            {
                name: pa.concat_arrays(
                    [one.packed.get(name, pa.nulls(len(one), pa.binary())) for one in frames]
                )
                for name in lists
            },
        )


class Topics:
    """Every topic with a number; times and offsets of its removal are `NONE` if it still exists.

    Args:
        rows: columns topic_id, name, valid_from_offset, valid_to_offset, valid_to_ts, to_batch.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.ids: pa.Array = rows.column("topic_id").combine_chunks()
        self.names: pa.Array = rows.column("name").combine_chunks()
        columns = ("valid_from_offset", "valid_to_offset", "valid_to_ts", "to_batch")
        self.born, self.died, self.died_ts, self.died_batch = (
            numbers_of(rows.column(name).combine_chunks()) for name in columns
        )
        self._numbers = {text: number for number, text in enumerate(self.ids.to_pylist())}

    def numbers(self, ids: pa.Array) -> Numbers:
        """Return the number of each binary id, -1 for an unknown topic."""
        index, found = codes(ids)
        known = [self._numbers.get(uuid_text(one), -1) for one in found.to_pylist()]
        return np.array([*known, -1], np.int64)[index]


class Clears(msgspec.Struct, frozen=True):
    """ClearElrRecords in log order: the topic, empty for all, and the place of each."""

    topics: tuple[str, ...]
    places: dict[str, Numbers]

    def between(self, after_batch: int, until_batch: int) -> "Clears":
        """Return those whose batch is in (after_batch, until_batch]."""
        batches = self.places["batch_offset"]
        mask = (batches > after_batch) & (batches <= until_batch)
        return Clears(
            tuple(name for name, is_in in zip(self.topics, mask.tolist(), strict=True) if is_in),
            {name: column[mask] for name, column in self.places.items()},
        )


def event_frame(batches: Iterable[pa.RecordBatch], topics: Topics) -> Frame:
    """Events of the tasks as a frame, without those of unknown topics."""
    table = pa.Table.from_batches(batches, PARTITION_EVENTS).combine_chunks()
    columns = {name: whole(table.column(name)) for name in table.column_names}
    numbers = {
        name: numbers_of(column) for name, column in columns.items()
        if name not in ("topic_id", *LISTS)
    }  # fmt: skip
    numbers["topic"] = topics.numbers(columns["topic_id"])
    frame = Frame(numbers, {name: columns[name] for name in LISTS})
    return frame.filter(numbers["topic"] >= 0)


def state_frame(table: pa.Table, topics: Topics) -> Frame:
    """Reverse `state_table`."""
    columns = {name: whole(table.column(name)) for name in table.column_names}
    packed = {name: columns.pop(name) for name in (*LISTS, *PREVIOUS)}
    number = topics.numbers(columns.pop("topic_id"))
    numbers = {name: numbers_of(column) for name, column in columns.items()}
    return Frame(numbers | {"topic": number}, packed).filter(number >= 0)


def state_table(frame: Frame, ids: pa.Array) -> pa.Table:
    """Open intervals as stored for the next run; `ids` are the binary ids of the topics."""
    columns = [
        ids.take(pa.array(frame.numbers["topic"])) if field.name == "topic_id"
        else frame.packed[field.name] if field.name in frame.packed
        else nullable(frame.numbers[field.name], field.type)
        for field in PARTITION_STATE
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=PARTITION_STATE)


class Chunk:
    """The sorted rows of one fold.

    Args:
        rows: carried states, events and clears, sorted by key and place.
        topics: all topics.
        until_batch: every record up to the end of this batch is in the rows or before them.
        step: `visible` to keep every state, else `batch_offset`.
    """

    def __init__(self, rows: Frame, topics: Topics, until_batch: int, step: str) -> None:
        self._topics = topics
        self._until_batch = until_batch
        self._step = step
        self._arrange(rows)

    @classmethod
    def of(
        cls, carry: Frame, events: Frame, clears: Clears, topics: Topics, *, until_batch: int,
        step: str,
    ) -> Self:  # fmt: skip
        """Build the rows of one fold."""
        carried = _as_events(carry)
        parts = [carried, events] if len(events) else [carried]
        made = _clear_events(clears, Frame.concat([_keys(one) for one in parts]), topics)
        rows = Frame.concat([*parts, made] if len(made) else parts)
        n = rows.numbers
        order = np.lexsort((n["idx"], n["offset"], n["visible"], _key(rows)))
        return cls(rows.take(order), topics, until_batch, step)

    def folded(self, carry: Frame) -> Frame:
        """Return the kept states, with the end of each and the state before it.

        Further numbers: `to_offset`, `to_ts` (`NONE`: open), `first` of its key, `carried` (its
        row in `carry`, `NONE` for a new state), `prev_leader`, `change`.
        """
        self._drop_changes_of_nothing()
        self._drop_clears_of_nothing()
        self._follow_moves()
        kept = self._overlaid().filter(self._is_kept())
        self._arrange(kept)
        n = kept.numbers
        ends = self._ends()
        following = np.minimum(np.arange(len(kept)) + 1, len(kept) - 1)
        died = np.where(ends == NONE, NONE, self._topics.died_ts[n["topic"]])
        n["to_offset"] = np.where(self._is_last, ends, n["visible"][following])
        n["to_ts"] = np.where(self._is_last, died, n["ts"][following])
        n["first"] = self._first.astype(np.int64)
        return _with_changes(kept, carry, self._first)

    def _arrange(self, rows: Frame) -> None:
        self._rows = rows
        count = len(rows)
        self._first = np.diff(_key(rows), prepend=-1) != 0
        self._is_last = np.append(self._first[1:], True)[:count]
        self._start = starts_of(self._first)

    def _last(self, mask: Flags) -> Numbers:
        """Return for each row the last row of its key, up to itself, where the mask is true."""
        return last_where(mask, self._start)

    def _valid(self, name: str) -> Flags:
        found: Flags = self._rows.packed[name].is_valid().to_numpy(zero_copy_only=False)
        return found

    def _drop_changes_of_nothing(self) -> None:
        """Drop the changes of partitions whose PartitionRecord was lost with a damaged batch."""
        is_reset = self._rows.numbers["api"] == RESET
        self._arrange(self._rows.filter(is_reset[self._last(is_reset)]))

    def _drop_clears_of_nothing(self) -> None:
        """Drop clears of partitions without ELR, which a ClearElrRecord does not change."""
        is_clear = self._rows.numbers["api"] == CLEARED
        if not bool(is_clear.any()):
            return
        known = np.zeros(len(self._rows), np.int64)
        before = np.arange(len(self._rows)) - 1
        for name in ("elr", "last_known_elr"):
            held = _lengths(self._rows.packed[name])[self._last(self._valid(name))]
            known += np.where(self._first, 0, held[before])
        self._arrange(self._rows.filter(~is_clear | (known > 0)))

    def _follow_moves(self) -> None:
        """Set the directories of records without any, from their replicas.

        A replica keeps its directory while it stays a replica, a new one is MIGRATING.
        """
        rows = self._rows
        named, moved = self._valid("directories"), self._valid("replicas")
        empty = named & (_lengths(rows.packed["directories"]) == 0)
        unclear = (rows.numbers["api"] == CHANGED) & ((moved & ~named) | empty)
        if not bool(unclear.any()):
            return
        touched = np.isin(self._start, self._start[unclear]) & (named | moved)
        where = np.flatnonzero(touched)
        chosen = pa.array(where)
        found = _followed(
            self._first[where].tolist(),
            rows.packed["replicas"].take(chosen).to_pylist(),
            rows.packed["directories"].take(chosen).to_pylist(),
        )
        index = np.arange(len(rows))
        index[where] = len(rows) + np.arange(len(where))
        pool = pa.concat_arrays([rows.packed["directories"], pa.array(found, pa.binary())])
        rows.packed["directories"] = pool.take(pa.array(index))

    def _overlaid(self) -> Frame:
        """Return every field as it is after each row."""
        rows, n = self._rows, self._rows.numbers
        is_reset = n["api"] == RESET
        base = self._last(is_reset)
        led = np.cumsum(~is_reset & (n["leader"] != NONE))
        steps = np.cumsum(~is_reset)
        made = {
            "leader_epoch": n["base_leader_epoch"][base] + led - led[base],
            "partition_epoch": n["base_partition_epoch"][base] + steps - steps[base],
        } | {name: n[name][self._last(n[name] != NONE)] for name in _FIELDS}
        same = {name: n[name] for name in ("topic", "partition", "api", "carried", *_PLACE)}
        packed = {
            name: rows.packed[name].take(pa.array(self._last(self._valid(name))))
            for name in LISTS
        }  # fmt: skip
        return Frame(same | made, packed)

    def _ends(self) -> Numbers:
        """Return for each row the offset of its topic's removal in this chunk, else `NONE`."""
        topic = self._rows.numbers["topic"]
        batch = self._topics.died_batch[topic]
        return np.where((batch != NONE) & (batch <= self._until_batch), self._topics.died[topic],
                        NONE)  # fmt: skip

    def _is_kept(self) -> Flags:
        """Return a mask of the rows that no row and no removal follows in the same step."""
        n = self._rows.numbers
        step = n[self._step]
        died = self._topics.died if self._step == "visible" else self._topics.died_batch
        gone = np.where(self._ends() == NONE, NONE, died[n["topic"]])
        following = np.where(self._is_last, gone, np.append(step[1:], NONE)[: len(step)])
        kept: Flags = following != step
        return kept


def starts_of(first: Flags) -> Numbers:
    """For each row the first row of its group."""
    found: Numbers = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    return found


def last_where(mask: Flags, start: Numbers) -> Numbers:
    """For each row the last row up to itself where the mask is true, or its group's first."""
    found: Numbers = np.maximum.accumulate(
        np.maximum(np.where(mask, np.arange(len(mask)), -1), start)
    )
    return found


def _with_changes(kept: Frame, carry: Frame, first: Flags) -> Frame:
    """Add the changes from the state before; none for the first; carried states keep theirs."""
    n = kept.numbers
    count = len(kept)
    carried = n["carried"] != NONE
    before = np.arange(count) - 1
    change = np.zeros(count, np.int64)
    for bit, name in enumerate(CHANGES):
        values = n[name] if name in n else codes(kept.packed[name])[0]
        change |= np.where(first, 0, values != values[before]) << bit
    n["change"], n["prev_leader"] = change, np.where(first, NONE, n["leader"][before])
    rows = n["carried"][carried]
    for name in ("change", "prev_leader", "api"):
        n[name][carried] = carry.numbers[name][rows]
    index = np.where(carried, count + n["carried"], before)
    chosen = pa.array(index, mask=first & ~carried)
    for name in PREVIOUS:
        values = kept.packed[name.removeprefix("prev_")]
        kept.packed[name] = pa.concat_arrays([values, carry.packed[name]]).take(chosen)
    return kept


def _as_events(carry: Frame) -> Frame:
    """Open intervals as events that set every field."""
    n = carry.numbers
    same = {name: n[name] for name in ("topic", "partition", *_FIELDS, *_PLACE) if name != "idx"}
    made = {
        "api": np.full(len(carry), RESET),
        "idx": np.full(len(carry), -1),
        "base_leader_epoch": n["leader_epoch"],
        "base_partition_epoch": n["partition_epoch"],
        "carried": np.arange(len(carry)),
    }
    return Frame(same | made, {name: carry.packed[name] for name in LISTS})


def _keys(rows: Frame) -> Frame:
    return Frame({name: rows.numbers[name] for name in ("topic", "partition")}, {})


def _key(rows: Frame) -> Numbers:
    return (rows.numbers["topic"] << _ID_BITS) | rows.numbers["partition"]


def _clear_events(clears: Clears, keys: Frame, topics: Topics) -> Frame:
    """One event for each partition of a ClearElrRecord's topic, or of all, alive at its place."""
    both = np.unique(_key(keys)) if clears.topics else np.empty(0, np.int64)
    topic, partition = both >> _ID_BITS, both & ((1 << _ID_BITS) - 1)
    names = np.array(topics.names.take(pa.array(topic)).to_pylist(), object)
    parts = []
    for number, name in enumerate(clears.topics):
        visible = clears.places["visible"][number]
        died = topics.died[topic]
        alive = (topics.born[topic] <= visible) & ((died == NONE) | (died > visible))
        mask = alive & (names == name) if name else alive
        count = int(mask.sum())
        place = {key: np.full(count, column[number]) for key, column in clears.places.items()}
        keyed = {"topic": topic[mask], "partition": partition[mask]}
        empty = pa.array([b""] * count, pa.binary())
        parts.append(Frame(keyed | place | {"api": np.full(count, CLEARED)},
                           {"elr": empty, "last_known_elr": empty}))  # fmt: skip
    return Frame.concat(parts) if parts else Frame({"topic": both[:0]}, {})


def _followed(
    firsts: list[bool], replicas: list[bytes | None], directories: list[bytes | None]
) -> list[bytes]:
    """The directories after each record of some partitions, by the replicas they belong to."""
    found: list[bytes] = []
    held: tuple[int, ...] = ()
    state = b""
    for is_first, moved, named in zip(firsts, replicas, directories, strict=True):
        now = held if moved is None and not is_first else unpack(moved or b"")
        if named is not None:
            state = named or _MIGRATING * len(now)
        elif now != held or is_first:
            places = [state[at : at + UUID_BYTES] for at in range(0, len(state), UUID_BYTES)]
            known = dict(zip(held, places, strict=False))
            state = b"".join(known.get(replica, _MIGRATING) for replica in now)
        held = now
        found.append(state)
    return found


def _lengths(packed: pa.Array) -> Numbers:
    return numbers_of(pc.binary_length(packed).fill_null(0))
