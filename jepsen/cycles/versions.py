"""Order of the values of every list, and what is wrong with single values, reads and appends.

The version order of a list is the longest final read of it, else the longest read: an append goes
behind everything, so each read must be a beginning of it.

| finding | what |
|---|---|
| `G1a` | a value was read whose transaction was aborted |
| `G1b` | a read has a part of what one transaction appended (but see `held_back`) |
| `own read` | a transaction was given what it had not committed itself |
| `never written` | a value was read that nobody appended to this list |
| `duplicated` | a value is there twice |
| `other order` | a read is no beginning of the version order |
| `back in time` | a session was given less of a list than before |
| `lost` | a committed value is not there at the end |
| `torn` | of a transaction with an unknown end a part is there |
| `moved` | a value is at another offset than its producer was told |
| `one offset` | two values were acknowledged at one offset |
| `out of order` | a value was committed before the append of another began, which stands first |
| `back to front` | a session's later append got a lower offset |
| `nodes differ` | two final reads of a list are not the same |
"""

from collections.abc import Hashable, Iterator, Sequence

import msgspec

from jepsen.cycles.held_back import may_be_held_back
from jepsen.cycles.orders import Order
from jepsen.cycles.transactions import Append, Read, Transaction
from jepsen.linearizability.history import FAIL, INFO, OK


class Finding(msgspec.Struct, frozen=True):
    """Evidence against the nodes."""

    kind: str
    key: str
    text: str


class Versions:
    """All transactions with the orders that follow from their reads."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.orders: dict[str, Order] = {}
        reads: dict[str, list[tuple[bool, int, Read]]] = {}
        writers: dict[str, dict[Hashable, Transaction]] = {}
        for transaction in transactions:
            for read in transaction.reads:
                row = (transaction.is_final, len(read.values), read)
                reads.setdefault(read.key, []).append(row)
            for append in transaction.appends:
                writers.setdefault(append.key, {})[append.value] = transaction
        for key in sorted(reads.keys() | writers.keys()):
            self.orders[key] = _order(key, reads.get(key, []), writers.get(key, {}))

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong with single values, reads and appends."""
        for transaction in self.transactions:
            yield from self._own_reads(transaction)
            yield from self._torn(transaction)
        for order in self.orders.values():
            yield from self._foreign_values(order)
            yield from self._parts(order)
            yield from self._lost(order)
            yield from _late_appends(order)
        yield from self._final_reads()
        yield from self._sessions()
        yield from self._offsets()

    # -- reads -----------------------------------------------------------------------------------

    def _readers(self, order: Order) -> Iterator[tuple[Transaction, Read, Sequence[Hashable]]]:
        """Reads of a list with the values that no read before had."""
        known = 0
        for transaction in self.transactions:
            for read in transaction.reads:
                if read.key != order.key:
                    continue
                if order.is_known(read):
                    yield transaction, read, read.values[known:]
                    known = max(known, len(read.values))
                else:
                    yield transaction, read, read.values

    def _foreign_values(self, order: Order) -> Iterator[Finding]:
        """G1a, never written, duplicated, other order."""
        for transaction, read, fresh in self._readers(order):
            by = f"read by {transaction.name}{_at(read)}"
            for value in fresh:
                writer = order.writer.get(value)
                if writer is None:
                    text = f"value {value} was appended by nobody, {by}"
                    yield _finding("never written", order.key, text)
                elif writer.type == FAIL:
                    text = f"value {value} of {writer.name}, which was aborted, {by}"
                    yield _finding("G1a", order.key, text)
            if not order.is_known(read):
                text = f"{_differs(order.values, read.values)}, {by}"
                yield _finding("other order", order.key, text)
        if len(order.place) < len(order.values):
            twice = next(value for at, value in enumerate(order.values) if order.place[value] != at)
            yield _finding("duplicated", order.key, f"value {twice} is there twice")

    def _parts(self, order: Order) -> Iterator[Finding]:
        """G1b: lengths of a read at which it has a part of what a transaction appended."""
        parts: dict[int, Transaction] = {}
        for transaction in {writer.number: writer for writer in order.writer.values()}.values():
            places = [
                order.place[append.value]
                for append in transaction.appends
                if append.key == order.key and append.value in order.place
            ]
            for length in range(min(places, default=0) + 1, max(places, default=0) + 1):
                parts[length] = transaction
        for reader, read, _ in self._readers(order):
            writer = parts.get(len(read.values))
            if writer is None or writer is reader or not order.is_known(read):
                continue
            if not may_be_held_back(self.transactions, order, reader, read, writer):
                text = f"{len(read.values)} values, a part of {writer.name}'s, read by"
                yield _finding("G1b", order.key, f"{text} {reader.name}{_at(read)}")

    def _own_reads(self, transaction: Transaction) -> Iterator[Finding]:
        appended = {(append.key, append.value) for append in transaction.appends}
        for read in transaction.reads if appended else ():
            for value in read.values:
                if (read.key, value) in appended:
                    text = f"value {value} read by {transaction.name} itself before its end"
                    yield _finding("own read", read.key, text)

    # -- appends ---------------------------------------------------------------------------------

    def _lost(self, order: Order) -> Iterator[Finding]:
        if order.final is None:
            return
        for value, writer in order.writer.items():
            if writer.type == OK and value not in order.place:
                text = f"value {value}, committed by {writer.name}, is not there at the end"
                yield _finding("lost", order.key, text)

    def _torn(self, transaction: Transaction) -> Iterator[Finding]:
        if transaction.type != INFO:
            return  # of others each value is judged alone
        orders = self.orders
        there = [append for append in transaction.appends if _is_in(orders[append.key], append)]
        missing = [
            append
            for append in transaction.appends
            if orders[append.key].final is not None and not _is_in(orders[append.key], append)
        ]
        if there and missing:
            text = (
                f"of {transaction.name}, whose end is unknown, value {there[0].value} of "
                f"{there[0].key} is there and value {missing[0].value} is not"
            )
            yield _finding("torn", missing[0].key, text)

    # -- the end, sessions, offsets --------------------------------------------------------------

    def _final_reads(self) -> Iterator[Finding]:
        for transaction in self.transactions:
            for read in transaction.reads if transaction.is_final else ():
                first = self.orders[read.key].final
                assert first is not None, "this one is final"
                if (read.values, read.offsets) == (first.values, first.offsets):
                    continue
                text = _differs(first.values, read.values)
                if first.values == read.values:
                    text = "the same values are at other offsets"
                yield _finding("nodes differ", read.key, f"{text},{_at(first)} and{_at(read)}")

    def _sessions(self) -> Iterator[Finding]:
        lengths: dict[tuple[Hashable, str], int] = {}
        offsets: dict[tuple[Hashable, str], Append] = {}
        for transaction in self.transactions:
            if transaction.is_final:
                continue
            for read in transaction.reads:
                place = (transaction.session, read.key)
                before, now = lengths.get(place, 0), len(read.values)
                if now < before:
                    text = f"{transaction.name} read {now} values, its session {before} before"
                    yield _finding("back in time", read.key, text)
                lengths[place] = max(before, now)
            for append in transaction.appends:
                place = (transaction.session, append.key)
                earlier = offsets.get(place)
                if append.offset is None:
                    continue
                if earlier is not None and (earlier.offset or 0) > append.offset:
                    text = (
                        f"value {append.value} is at offset {append.offset}, value "
                        f"{earlier.value}, which its session appended before, at {earlier.offset}"
                    )
                    yield _finding("back to front", append.key, text)
                offsets[place] = append

    def _offsets(self) -> Iterator[Finding]:
        told: dict[tuple[str, int], Append] = {}
        for append in (each for one in self.transactions for each in one.appends):
            if append.offset is None:
                continue
            other = told.setdefault((append.key, append.offset), append)
            if other is not append:
                text = f"values {other.value} and {append.value} were both told {append.offset}"
                yield _finding("one offset", append.key, text)
            order = self.orders[append.key]
            place = order.place.get(append.value)
            if order.final is None or order.final.offsets is None or place is None:
                continue
            found = order.final.offsets[place]
            if found != append.offset:
                text = f"value {append.value} was told offset {append.offset} and is at {found}"
                yield _finding("moved", append.key, text)


def _order(
    key: str, reads: list[tuple[bool, int, Read]], writers: dict[Hashable, Transaction]
) -> Order:
    values: tuple[Hashable, ...] = ()
    if reads:
        values = max(reads, key=lambda row: row[:2])[2].values
    place: dict[Hashable, int] = {}
    for at, value in enumerate(values):
        place.setdefault(value, at)
    final = next((read for is_final, _, read in reads if is_final), None)
    return Order(key, values, place, writers, final)


def _late_appends(order: Order) -> Iterator[Finding]:
    """A transaction that began after another was committed has its values behind the other's."""
    earliest: tuple[int, Hashable] | None = None  # end, value: of those that stand behind
    for value in reversed(list(order.place)):
        writer = order.writer.get(value)
        if writer is None:
            continue
        if earliest is not None and earliest[0] < writer.call:
            text = f"value {value} of {writer.name} stands before value {earliest[1]}, which was"
            yield _finding("out of order", order.key, f"{text} committed before it began")
        if writer.type == OK:
            assert writer.end is not None, "it completed"
            earliest = min(earliest or (writer.end, value), (writer.end, value), key=lambda e: e[0])


def _is_in(order: Order, append: Append) -> bool:
    return append.value in order.place


def _differs(one: Sequence[Hashable], other: Sequence[Hashable]) -> str:
    """Tell the place at which two lists part."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"value {at} is {left} and {right}"
    return f"{len(one)} and {len(other)} values"


def _at(read: Read) -> str:
    return "" if read.node is None else f" at node {read.node}"


def _finding(kind: str, key: str, text: str) -> Finding:
    return Finding(kind, key, f"{key}: {text}")
