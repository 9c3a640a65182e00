"""Reads that end inside of a transaction, and transactions that may be the reason."""

import pytest

from jepsen.cycles.held_back import MARKERS_NS, may_be_held_back
from jepsen.cycles.orders import Order
from jepsen.cycles.transactions import Append, Read, Transaction

FIRST, LAST = Append("a", 1, 10), Append("a", 3, 14)
WRITER = Transaction(number=0, session=0, type="ok", call=0, end=10, appends=(FIRST, LAST))
READER = Transaction(number=1, session=1, type="ok", call=10**11, end=2 * 10**11)
SOON = READER.call - int(MARKERS_NS)


def held_back(append, *, call=0, end=READER.call, values=(1, 3)):
    """True if a read of the first value is, by a transaction with this append."""
    other = Transaction(number=2, session=2, type="fail", call=call, end=end, appends=(append,))
    place = {value: at for at, value in enumerate(values)}
    writer = {1: WRITER, 3: WRITER, append.value: other}
    order = Order("a", values, place, writer, None)
    transactions = (WRITER, READER, other)
    return may_be_held_back(transactions, order, READER, Read("a", (1,)), WRITER)


@pytest.mark.parametrize(
    ("append", "values", "expected"),
    [
        (Append("a", 2, None), (1, 2, 3), True),
        (Append("a", 2, None), (2, 1, 3), False),
        (Append("a", 2, None), (1, 3, 2), False),
        (Append("b", 2, None), (1, 3), False),
        (Append("a", 2, None), (1, 3), True),  # aborted, nobody knows where
        (Append("a", 2, 11), (1, 3), True),
        (Append("a", 2, 13), (1, 3), True),
        (Append("a", 2, 9), (1, 3), False),
        (Append("a", 2, 10), (1, 3), False),
        (Append("a", 2, 14), (1, 3), False),
    ],
)
def test_its_record_stands_between_the_values(append, values, expected):
    assert held_back(append, values=values) is expected


@pytest.mark.parametrize(
    ("call", "end", "expected"),
    [
        (0, SOON, True),
        (0, SOON - 1, False),  # its markers are long written
        (0, None, True),
        (READER.end, None, True),
        (READER.end + 1, None, False),
    ],
)
def test_it_may_be_open_while_the_reader_reads(call, end, expected):
    assert held_back(Append("a", 2, 12), call=call, end=end) is expected


def test_the_writer_holds_no_reader_of_its_own_back():
    order = Order("a", (1, 3), {1: 0, 3: 1}, {1: WRITER, 3: WRITER}, None)
    assert not may_be_held_back((WRITER, READER), order, READER, Read("a", (1,)), WRITER)
