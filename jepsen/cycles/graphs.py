"""Directed graphs with labelled edges: strongly connected components and short cycles."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple

Node = Hashable


class Edge(NamedTuple):
    """An edge; `label` says for people what it stands for."""

    start: Node
    end: Node
    kind: str
    label: str = ""


class Graph:
    """Edges by start; of two between the same nodes the first counts."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self._edges: Final[dict[Node, dict[Node, Edge]]] = {}
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        """Add an edge, unless it is a loop or its nodes have one already."""
        if edge.start != edge.end:
            self._edges.setdefault(edge.start, {}).setdefault(edge.end, edge)

    def edges_from(self, node: Node) -> Iterable[Edge]:
        """Edges that start at a node."""
        return self._edges.get(node, {}).values()

    def components(self) -> list[list[Node]]:
        """Strongly connected components of more than one node (Tarjan, without recursion)."""
        index: dict[Node, int] = {}
        low: dict[Node, int] = {}
        stack: list[Node] = []
        on_stack: set[Node] = set()
        found: list[list[Node]] = []
        for root in list(self._edges):
            if root in index:
                continue
            work: list[tuple[Node, Iterator[Edge]]] = []
            self._enter(root, index, low, stack, on_stack, work)
            while work:
                node, edges = work[-1]
                for edge in edges:
                    if edge.end not in index:
                        self._enter(edge.end, index, low, stack, on_stack, work)
                        break
                    if edge.end in on_stack:
                        low[node] = min(low[node], index[edge.end])
                else:
                    work.pop()
                    if work:
                        above = work[-1][0]
                        low[above] = min(low[above], low[node])
                    if low[node] == index[node]:
                        component = _popped(stack, on_stack, node)
                        if len(component) > 1:
                            found.append(component)
        return found

    def _enter(
        self,
        node: Node,
        index: dict[Node, int],
        low: dict[Node, int],
        stack: list[Node],
        on_stack: set[Node],
        work: list[tuple[Node, Iterator[Edge]]],
    ) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        work.append((node, iter(self.edges_from(node))))

    def path(
        self, start: Node, end: Node, within: set[Node], cost: Callable[[Node], int]
    ) -> list[Edge] | None:
        """Cheapest way between two different nodes; a node costs 0 or 1. None: there is none."""
        came: dict[Node, Edge] = {}
        done: set[Node] = set()
        waiting: deque[tuple[Node, Edge | None]] = deque([(start, None)])
        while waiting:
            node, by = waiting.popleft()
            if node in done:
                continue
            done.add(node)
            if by is not None:
                came[node] = by
            if node == end:
                return _way(came, start, end)
            for edge in self.edges_from(node):
                if edge.end in within and edge.end not in done:
                    place = waiting.append if cost(edge.end) else waiting.appendleft
                    place((edge.end, edge))
        return None

    def cycle(self, edge: Edge, within: set[Node], cost: Callable[[Node], int]) -> list[Edge]:
        """Cheapest cycle through an edge, which comes first; empty: there is none."""
        way = self.path(edge.end, edge.start, within, cost)
        return [] if way is None else [edge, *way]


def _popped(stack: list[Node], on_stack: set[Node], node: Node) -> list[Node]:
    component: list[Node] = []
    while not component or component[-1] != node:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component


def _way(came: dict[Node, Edge], start: Node, end: Node) -> list[Edge]:
    way: list[Edge] = []
    while end != start:
        way.append(came[end])
        end = came[end].start
    return way[::-1]
