"""Check of what producers were told against what is read at the end; no search, only sorting.

| finding | what |
|---|---|
| `lost` | an acknowledged value is not there |
| `moved` | it is, but not at the offset that was acknowledged |
| `duplicated` | a value is there twice (with idempotence) |
| `never written` | a value, or bytes, that nobody appended to this partition |
| `refused` | a value is there whose append certainly did not happen |
| `out of order` | a value was acknowledged before the append of another began, which stands first |
| `gap` | an offset without a record |
| `epoch` | a leader epoch is lower than that of the record before |
| `nodes differ` | two nodes give different records at an offset, or different ends |
| `unsettled` | a consumer was given a record that is not there at the end |
| `sequence` | a batch was refused as out of order, though all before it were acknowledged |

Operations: `append` of a value, ok with `[value offset]`; `fetch` from an offset, ok with the
records from there on, maybe not all; `read` of everything at the end. All have their partition as
`key`. Completions may tell `epoch` (of the leader of an append), `epochs` (`[offset epoch]` where a
read's epoch changes), and `offsets` of records that do not follow one another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from jepsen.linearizability import Event, History, HistoryError
from jepsen.linearizability.history import FAIL, OK, paired
from jepsen.report import INVALID, VALID, Check
from wire.errors import ErrorCode

NAME: Final = "records"
OUT_OF_ORDER: Final = ErrorCode(45).name
FINDINGS_SHOWN: Final = 20


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence against the nodes; what does not apply is None."""

    kind: str
    partition: str
    value: int | str | None
    offset: int | None
    epoch: int | None
    text: str


class _Append(msgspec.Struct, frozen=True):
    value: int
    call: int
    end: int | None
    """None: not known to have ended."""
    type: str
    offset: int | None
    epoch: int | None
    error: str


class _Read(msgspec.Struct, frozen=True):
    """Records as a node gave them, by offset."""

    node: int | None
    start: int
    values: tuple[int | str, ...]
    offsets: Sequence[int]
    epochs: tuple[tuple[int, int], ...]
    where: Mapping[int | str, list[int]]
    """Offsets of each value."""
    by_offset: Mapping[int, int | str]

    def at(self, offset: int) -> int | str | None:
        """Value at an offset; None if there is none."""
        return self.by_offset.get(offset)

    def epoch(self, offset: int) -> int | None:
        """Leader epoch of the record at an offset."""
        found = [epoch for first, epoch in self.epochs if first <= offset]
        return found[-1] if found and self.at(offset) is not None else None

    @property
    def end_offset(self) -> int:
        return self.offsets[-1] + 1 if self.values else self.start


class _Partition(msgspec.Struct):
    appends: dict[int, _Append] = {}
    fetches: list[_Read] = []
    reads: list[_Read] = []


def check_records(history: History, *, is_idempotent: bool) -> tuple[Check, list[dict[str, Any]]]:
    """Check a history of append-log; the findings are returned as plain objects.

    Raises:
        HistoryError: it is none.
    """
    found = findings(history, is_idempotent=is_idempotent)
    if not found:
        return Check(NAME, VALID), []
    kinds = Counter(finding.kind for finding in found)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    shown = [msgspec.to_builtins(finding) for finding in found[:FINDINGS_SHOWN]]
    return Check(NAME, INVALID, f"{counted}; first: {found[0].text}"), shown


def findings(history: History, *, is_idempotent: bool) -> list[Finding]:
    """Everything that is wrong, by partition. Raises as `check_records`."""
    found: list[Finding] = []
    for key, partition in sorted(_partitions(history).items()):
        judge = _Judge(key, partition, is_idempotent=is_idempotent)
        found += judge.findings()
    return found


class _Judge:
    """Findings of one partition."""

    def __init__(self, key: str, partition: _Partition, *, is_idempotent: bool) -> None:
        self._key = key
        self._appends = partition.appends
        self._fetches = partition.fetches
        self._reads = partition.reads
        self._is_idempotent = is_idempotent

    def findings(self) -> Iterator[Finding]:
        if self._is_idempotent:
            yield from self._refused_sequences()
        for number, read in enumerate(self._reads):
            if number and (read.values, read.offsets) == (
                self._reads[0].values, self._reads[0].offsets
            ):  # fmt: skip
                continue
            yield from self._acknowledged(read)
            yield from self._present(read)
            yield from self._places(read)
            yield from self._order(read)
        if self._reads:
            yield from self._differences(self._reads[0])
            yield from self._unsettled(self._reads[0])

    def _finding(
        self, kind: str, value: int | str | None, offset: int | None, epoch: int | None, text: str
    ) -> Finding:
        subject = f"{self._key}: " if value is None else f"{self._key}: value {value} "
        return Finding(
            kind=kind, partition=self._key, value=value, offset=offset, epoch=epoch,
            text=subject + text,
        )  # fmt: skip

    def _acknowledged(self, read: _Read) -> Iterator[Finding]:
        for append in self._appends.values():
            if append.type != OK:
                continue
            places = read.where.get(append.value, [])
            told = _told(append)
            if not places:
                text = f"{told}, is not there: {_content(read, append.offset)}"
                yield self._finding("lost", append.value, append.offset, append.epoch, text)
            elif append.offset is not None and append.offset not in places:
                text = f"{told}, is at offset {places[0]} of epoch {read.epoch(places[0])}"
                yield self._finding("moved", append.value, append.offset, append.epoch, text)

    def _present(self, read: _Read) -> Iterator[Finding]:
        for value, places in read.where.items():
            append = self._appends.get(value) if isinstance(value, int) else None
            epoch = read.epoch(places[0])
            at = f"at offset {places[0]} of epoch {epoch}{_by(read)}"
            if append is None:
                text = f"{at} was never written"
                yield self._finding("never written", value, places[0], epoch, text)
            elif append.type == FAIL:
                text = f"{at} was not appended: {append.error}"
                yield self._finding("refused", value, places[0], epoch, text)
            if self._is_idempotent and len(places) > 1:
                text = f"is at the offsets {', '.join(map(str, places))}{_by(read)}"
                yield self._finding("duplicated", value, places[1], read.epoch(places[1]), text)

    def _places(self, read: _Read) -> Iterator[Finding]:
        for expected, offset in enumerate(read.offsets, read.start):
            if offset != expected:
                text = f"offset {expected} has no record, the next is {offset}{_by(read)}"
                yield self._finding("gap", None, expected, None, text)
                break
        for (_, before), (offset, epoch) in zip(read.epochs, read.epochs[1:], strict=False):
            if epoch < before:
                text = f"offset {offset} is of epoch {epoch}, after epoch {before}{_by(read)}"
                yield self._finding("epoch", read.at(offset), offset, epoch, text)

    def _order(self, read: _Read) -> Iterator[Finding]:
        """An append that began after another was acknowledged stands behind it."""
        acknowledged = [
            (append.offset, append)
            for append in self._appends.values()
            if append.type == OK and append.offset is not None and append.end is not None
        ]
        acknowledged.sort(key=lambda pair: pair[0])
        placed = sorted(
            (
                (min(read.where[append.value]), append)
                for append in self._appends.values()
                if append.value in read.where
            ),
            key=lambda pair: pair[0],
            reverse=True,
        )
        earliest: _Append | None = None  # to end, of those that stand behind
        for offset, append in placed:
            while acknowledged and acknowledged[-1][0] > offset:
                behind = acknowledged.pop()[1]
                assert behind.end is not None
                if earliest is None or earliest.end is None or behind.end < earliest.end:
                    earliest = behind
            if earliest is not None and earliest.end is not None and earliest.end < append.call:
                epoch = read.epoch(offset)
                text = (
                    f"at offset {offset} of epoch {epoch} stands before value {earliest.value}, "
                    f"{_told(earliest)} before its append began"
                )
                yield self._finding("out of order", append.value, offset, epoch, text)

    def _differences(self, first: _Read) -> Iterator[Finding]:
        for read in self._reads[1:]:
            end = max(first.end_offset, read.end_offset)
            for offset in range(first.start, end):
                one, other = first.at(offset), read.at(offset)
                if one != other:
                    text = (
                        f"offset {offset} has value {one} of epoch {first.epoch(offset)}"
                        f"{_by(first)} and {other} of epoch {read.epoch(offset)}{_by(read)}"
                    )
                    epoch = first.epoch(offset)
                    yield self._finding("nodes differ", None, offset, epoch, text)
                    break

    def _unsettled(self, final: _Read) -> Iterator[Finding]:
        for fetch in self._fetches:
            for offset, value in zip(fetch.offsets, fetch.values, strict=True):
                if final.at(offset) != value:
                    epoch = fetch.epoch(offset)
                    text = (
                        f"was given at offset {offset} of epoch {epoch}{_by(fetch)}, at the end "
                        f"{_content(final, offset)}"
                    )
                    yield self._finding("unsettled", value, offset, epoch, text)
                    break

    def _refused_sequences(self) -> Iterator[Finding]:
        for append in self._appends.values():
            if OUT_OF_ORDER in append.error:
                text = f"was refused though all before it was acknowledged: {append.error}"
                yield self._finding("sequence", append.value, None, append.epoch, text)


def _told(append: _Append) -> str:
    where = "a duplicate" if append.offset is None else f"offset {append.offset}"
    return f"acknowledged at {where} in epoch {append.epoch}"


def _content(read: _Read, offset: int | None) -> str:
    if offset is None or offset >= read.end_offset:
        return f"the log ends at {read.end_offset}{_by(read)}"
    return f"offset {offset} has value {read.at(offset)} of epoch {read.epoch(offset)}{_by(read)}"


def _by(read: _Read) -> str:
    return "" if read.node is None else f" at node {read.node}"


# -- from events -----------------------------------------------------------------------------------


def _partitions(history: History) -> dict[str, _Partition]:
    """Operations by key.

    Raises:
        HistoryError: the events are none of this workload.
    """
    found: dict[str, _Partition] = {}
    for place, invoked, completed in paired(history):
        key = invoked.extra.get("key")
        if not isinstance(key, str):
            raise HistoryError(f"{place}: {invoked.f} has no key")
        partition = found.setdefault(key, _Partition())
        if invoked.f == "append":
            append = _append(place, invoked, completed)
            if append.value in partition.appends:
                raise HistoryError(f"{place}: value {append.value} is appended twice")
            partition.appends[append.value] = append
        elif invoked.f in ("fetch", "read"):
            if completed is not None and completed.type == OK:
                kind = partition.fetches if invoked.f == "fetch" else partition.reads
                kind.append(_read(place, invoked, completed))
        else:
            text = f"operation '{invoked.f}' is not one of append-log: append, fetch, read"
            raise HistoryError(f"{place}: {text}")
    return found


def _append(place: str, invoked: Event, completed: Event | None) -> _Append:
    if type(invoked.value) is not int:
        raise HistoryError(f"{place}: value of append is {invoked.value!r}, not a whole number")
    offset = None
    if completed is not None and completed.type == OK:
        answer = completed.value
        if not isinstance(answer, list | tuple) or len(answer) != 2 or answer[0] != invoked.value:
            raise HistoryError(f"{place}: append of {invoked.value} gave {answer!r}")
        offset = answer[1]
        if offset is not None and type(offset) is not int:
            raise HistoryError(f"{place}: offset of append is {offset!r}, not a whole number")
    call, end = _times(invoked, completed)
    return _Append(
        value=invoked.value,
        call=call,
        end=end,
        type="info" if completed is None else completed.type,
        offset=offset,
        epoch=None if completed is None else completed.extra.get("epoch"),
        error="" if completed is None else str(completed.error or ""),
    )


def _times(invoked: Event, completed: Event | None) -> tuple[int, int | None]:
    """Times of the clock, else indexes; both from the same source."""
    if completed is None or completed.type not in (OK, FAIL):
        return (invoked.time or invoked.index or 0), None
    if invoked.time is not None and completed.time is not None:
        return invoked.time, completed.time
    return invoked.index or 0, completed.index


def _read(place: str, invoked: Event, completed: Event) -> _Read:
    start = invoked.value if invoked.f == "fetch" else 0
    values = completed.value
    if type(start) is not int or not isinstance(values, list | tuple):
        raise HistoryError(f"{place}: {invoked.f} from {start!r} gave {values!r}, no records")
    offsets = completed.extra.get("offsets", range(start, start + len(values)))
    epochs = completed.extra.get("epochs", ())
    try:
        runs = tuple((int(offset), int(epoch)) for offset, epoch in epochs)
        is_whole = len(offsets) == len(values) and all(type(at) is int for at in offsets)
    except (TypeError, ValueError) as error:
        raise HistoryError(f"{place}: offsets or epochs of {invoked.f} are no numbers") from error
    if not is_whole:
        raise HistoryError(f"{place}: {len(values)} records of {invoked.f} at {offsets!r}")
    where: dict[int | str, list[int]] = {}
    for offset, value in zip(offsets, values, strict=True):
        where.setdefault(value, []).append(offset)
    node = invoked.extra.get("node")
    return _Read(
        node=node if isinstance(node, int) else None,
        start=start,
        values=tuple(values),
        offsets=offsets,
        epochs=runs,
        where=where,
        by_offset=dict(zip(offsets, values, strict=True)),
    )
