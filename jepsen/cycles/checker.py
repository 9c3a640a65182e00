"""Verdict on a history of lists: what Kafka promises never, and what it permits.

Kafka's transactions are atomic and read committed, and no more. A consumer with
`isolation.level=read_committed` is given the records below the last stable offset, so that a
transaction comes to it, partition by partition, as a whole or not at all, and only when its commit
is decided. Appends are not isolated: records of concurrent transactions stand in a partition as
they arrived. Reads take no part in the transaction, and the markers of a commit reach one partition
before the other.

| never | why |
|---|---|
| all of `versions` | |
| `G1c` | a cycle of reads alone: what is read was committed before the reader's commit |
| `G1c-realtime` | the same with transactions that ended before others began |

| permitted | why |
|---|---|
| `G0` | a cycle of `ww`: records of two transactions in other orders in two partitions |
| `G1c-ww` | a cycle of `ww` and `wr` |
| `G-single` | one `rw`: a partition was read before the marker of a commit, another after it |
| `G2` | a cycle with more of them |

So did Jepsen judge (jepsen-io/jepsen: tests/kafka.clj; the analysis of Redpanda 21.10.1, 2022).
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from jepsen.cycles.dependencies import (
    RW,
    WR,
    WW,
    dependencies,
    flows,
    is_transaction,
)
from jepsen.cycles.graphs import Edge, Graph, Node
from jepsen.cycles.transactions import described, transactions_of
from jepsen.cycles.versions import Finding, Versions
from jepsen.linearizability import History

PERMITTED: Final = frozenset({"G0", "G1c-ww", "G-single", "G2"})
"""Kinds that Kafka's transactions permit."""
FINDINGS_SHOWN: Final = 20
"""Findings whose transactions are described."""
NAME: Final = re.compile(r"\bT(\d+)\b")
EDGES_TRIED_MAX: Final = 200
"""Edges of a component from which a cycle is looked for."""


class Judgement(msgspec.Struct, frozen=True):
    """Findings; permitted anomalies are counted, with one example of each."""

    findings: tuple[Finding, ...]
    permitted: dict[str, int]
    examples: dict[str, str]
    named: dict[str, str]
    """Transactions that the texts name, described."""


def judged(history: History, permitted: frozenset[str] = PERMITTED) -> Judgement:
    """Judge a history of `txn` and `read`.

    Args:
        history: All of it.
        permitted: Kinds of anomalies that are no findings.

    Raises:
        HistoryError: it is none.
    """
    transactions = transactions_of(history)
    versions = Versions(transactions)
    found = [*versions.findings(), *_circular_flows(versions), *_cycles(versions)]
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    for finding in found:
        if finding.kind in permitted:
            counts[finding.kind] = counts.get(finding.kind, 0) + 1
            examples.setdefault(finding.kind, finding.text)
    rest = tuple(finding for finding in found if finding.kind not in permitted)
    shown = rest[:FINDINGS_SHOWN]
    texts = [*(finding.text for finding in shown), *examples.values()]
    numbers = sorted({int(number) for text in texts for number in NAME.findall(text)})
    named = {transactions[at].name: described(transactions[at]) for at in numbers}
    return Judgement(rest, counts, examples, named)


def _circular_flows(versions: Versions) -> Iterator[Finding]:
    """Cycles of reads alone; those that need real time where there are no others."""
    for kind, with_time in (("G1c", False), ("G1c-realtime", True)):
        graph = flows(versions, with_time=with_time)
        components = graph.components()
        for component in components:
            within = set(component)
            edge = _first_between(graph, component)
            cycle = graph.cycle(edge, within, lambda node: int(is_transaction(node)))
            yield Finding(kind, "", _told(cycle))
        if components:
            return


def _first_between(graph: Graph, component: list[Node]) -> Edge:
    """An edge of a component from a transaction: there is one, values and ends form no cycle."""
    within = set(component)
    first = min(node for node in component if isinstance(node, int))
    return next(edge for edge in graph.edges_from(first) if edge.end in within)


def _cycles(versions: Versions) -> Iterator[Finding]:
    """One cycle of each kind for each component of its graph.

    A kind asks for an edge of its own and for others to close the cycle with.
    """
    edges = dependencies(versions)
    kinds: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("G0", WW, (WW,)),
        ("G1c-ww", WR, (WW, WR)),
        ("G-single", RW, (WW, WR)),
        ("G2", RW, (WW, WR, RW)),
    )
    for name, own, others in kinds:
        closing = Graph(edge for edge in edges if edge.kind in others)
        whole = Graph(edge for edge in edges if edge.kind in (*others, own))
        for component in whole.components():
            within = set(component)
            starts = (e for e in edges if e.kind == own and {e.start, e.end} <= within)
            cycle = _first_cycle(closing, islice(starts, EDGES_TRIED_MAX), within, _fits(name))
            if cycle:
                keys = cycle[0].label.partition(":")[0]
                yield Finding(name, keys, _told(cycle))


def _fits(name: str) -> Callable[[list[Edge]], bool]:
    """The test of a cycle of a kind, beside the kinds of its edges."""
    if name == "G1c-ww":
        return lambda cycle: any(edge.kind == WW for edge in cycle)
    if name == "G2":
        return lambda cycle: sum(edge.kind == RW for edge in cycle) > 1
    return bool


def _first_cycle(
    graph: Graph, starts: Iterator[Edge], within: set[Node], fits: Callable[[list[Edge]], bool]
) -> list[Edge]:
    for edge in starts:
        cycle = graph.cycle(edge, within, lambda _: 1)
        if cycle and fits(cycle):
            return cycle
    return []


def _told(cycle: list[Edge]) -> str:
    """`T1 -wr a: 5-> T2 -...-> T1`; auxiliary nodes are left out."""
    text = ""
    for edge in cycle:
        if is_transaction(edge.start):
            label = f" {edge.label}" if edge.label else ""
            text += f"T{edge.start} -{edge.kind}{label}-> "
    return f"{text}T{cycle[0].start}"
