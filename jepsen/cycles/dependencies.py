"""Dependencies of transactions, as graphs.

| edge | what |
|---|---|
| `ww` | the other's value stands next behind in a list |
| `wr` | the other was given a list whose last value this one appended |
| `rw` | the other appended the value behind the list that this one was given |

`dependencies` are these three, as Elle has them. `flows` has another kind of `wr`, from the writer
of *every* value of a list to its reader, and `before`, from a transaction to those that began after
it had ended. Aborted transactions are in it as readers.

Auxiliary nodes keep it small: each value of a list is a node, from which an edge leads to the next,
and so are the ends of transactions. What is read is behind a value's node, its writer before it.
"""

import bisect
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from jepsen.cycles.graphs import Edge, Graph, Node
from jepsen.cycles.orders import Order
from jepsen.cycles.transactions import Read, Transaction
from jepsen.cycles.versions import Versions
from jepsen.linearizability.history import FAIL

WW: Final = "ww"
WR: Final = "wr"
RW: Final = "rw"
BEFORE: Final = "before"
NEXT: Final = "next"


def dependencies(versions: Versions) -> list[Edge]:
    """Edges of all three kinds between the numbers of transactions, not of final reads."""
    edges: list[Edge] = []
    for order in versions.orders.values():
        writers = [_writer(order, at) for at in range(len(order.values))]
        for at, (one, other) in enumerate(pairwise(writers)):
            if one is not None and other is not None:
                values = f"{order.key}: {order.values[at]}, {order.values[at + 1]}"
                edges.append(Edge(one.number, other.number, WW, values))
        for reader, read in _reads(versions, order):
            at = len(read.values)
            writer = writers[at - 1] if at else None
            if writer is not None:
                edges.append(Edge(writer.number, reader.number, WR, _label(order, at - 1)))
            behind = writers[at] if at < len(writers) else None
            if behind is not None and reader.type != FAIL:
                edges.append(Edge(reader.number, behind.number, RW, _label(order, at)))
    return edges


def flows(versions: Versions, *, with_time: bool) -> Graph:
    """Make the graph of who can know of whom: transactions are numbers, other nodes texts."""
    graph = Graph()
    for order in versions.orders.values():
        for at in range(len(order.values)):
            writer = _writer(order, at)
            if writer is not None:
                graph.add(Edge(writer.number, _value_node(order, at), WR, _label(order, at)))
            if at:
                graph.add(Edge(_value_node(order, at - 1), _value_node(order, at), NEXT))
        for reader, read in _reads(versions, order):
            if read.values:
                graph.add(Edge(_value_node(order, len(read.values) - 1), reader.number, WR))
    if with_time:
        _add_times(graph, versions.transactions)
    return graph


def is_transaction(node: Node) -> bool:
    """True of a node of `flows` that is no auxiliary one."""
    return isinstance(node, int)


def _add_times(graph: Graph, transactions: Sequence[Transaction]) -> None:
    ended = sorted((each.end, each.number) for each in transactions if each.end is not None)
    ends = [end for end, _ in ended]
    for at, (_, number) in enumerate(ended):
        graph.add(Edge(number, f"end {at}", BEFORE))
        if at:
            graph.add(Edge(f"end {at - 1}", f"end {at}", NEXT))
    for transaction in transactions:
        before = bisect.bisect_left(ends, transaction.call)
        if before:
            graph.add(Edge(f"end {before - 1}", transaction.number, BEFORE))


def _writer(order: Order, at: int) -> Transaction | None:
    return order.writer.get(order.values[at])


def _reads(versions: Versions, order: Order) -> list[tuple[Transaction, Read]]:
    """Reads of a list that fit into its order, without own values: those are findings already."""
    return [
        (transaction, read)
        for transaction in versions.transactions
        for read in transaction.reads
        if read.key == order.key
        and not transaction.is_final
        and order.is_known(read)
        and not any(
            order.place.get(append.value, len(read.values)) < len(read.values)
            for append in transaction.appends
            if append.key == order.key
        )
    ]


def _value_node(order: Order, at: int) -> str:
    return f"{order.key} {at}"


def _label(order: Order, at: int) -> str:
    return f"{order.key}: {order.values[at]}"
