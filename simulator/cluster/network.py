"""Connections between nodes and clients as TCP gives them: in order, late, cut, or reset.

Bytes of a connection arrive in order or not at all. A cut link (one way or both) holds what is on
it: it arrives after the link heals, possibly at a process that no longer waits for it. Delays are
exponential; without a bound one of a thousand is longer than any time-out, so for the check of
liveness the network is calm: none is longer than twice its mean. A killed process resets its
connections; those of a machine without power are silent until the other side notices.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from math import log
from random import Random
from typing import Final, Protocol
from zlib import crc32

import msgspec

from simulator.cluster.scheduler import Scheduler

CONNECT_GIVE_UP_US: Final = 10_000_000
CALM_MEANS: Final = 2
RETRANSMIT_US: Final = 200_000
SILENCE_MEAN_US: Final = 5_000_000
"""Mean time, beyond `RETRANSMIT_US`, until a peer notices that a machine lost its power."""


class End(Protocol):
    """One side of a connection."""

    @property
    def host(self) -> int:
        """Number of the machine; clients have numbers of their own."""
        ...

    def opened(self) -> None:
        """Take note that the connection is established."""
        ...

    def received(self, data: bytes) -> None:
        """Take bytes that arrived."""
        ...

    def closed(self, *, refused: bool) -> None:
        """Take note that the other side closed or reset it, or refused to open it."""
        ...


class Direction:
    """One direction of a connection; `target` is None until it is established."""

    __slots__ = ("held", "in_flight", "last_us", "link", "target")

    def __init__(self, source_host: int, target_host: int, target: End | None) -> None:
        self.link = (source_host, target_host)
        self.target = target
        self.last_us = 0
        self.held: list[Callable[[], None]] = []
        self.in_flight = 0
        """Chunks that were sent and have not arrived, held ones included."""

    def received(self, data: bytes) -> None:
        """Pass bytes to the side that they are for, if there is one by now."""
        if self.target is not None:
            self.target.received(data)


class Pipe:
    """A connection that `client` opened to a host."""

    __slots__ = ("is_open", "to_client", "to_server", "unaware")

    def __init__(self, client: End, host: int) -> None:
        self.to_server = Direction(client.host, host, None)
        self.to_client = Direction(host, client.host, client)
        self.is_open = True
        self.unaware: tuple[Direction, ...] = ()
        """Directions to the sides that have not noticed yet that the connection is broken."""

    @property
    def hosts(self) -> tuple[int, int]:
        """Host of the client and of the server."""
        return self.to_server.link


class Chunk(msgspec.Struct):
    """Bytes in flight. An object, as a closure over as much takes longer to make."""

    network: "Network"
    pipe: Pipe
    direction: Direction
    data: bytes

    def arrive(self) -> None:
        """Deliver them, or hold them until a cut link heals."""
        network, direction = self.network, self.direction
        if direction.held or (network.cut_links and direction.link in network.cut_links):
            network.hold(direction, self.arrive)
            return
        direction.in_flight -= 1
        if self.pipe.is_open:
            direction.received(self.data)


class Signal(msgspec.Struct):
    """Anything else in flight on a connection: that it is established, refused, or closed."""

    network: "Network"
    direction: Direction
    deliver: Callable[[], None]

    def arrive(self) -> None:
        """Deliver it, or hold it until a cut link heals."""
        network, direction = self.network, self.direction
        if direction.held or direction.link in network.cut_links:
            network.hold(direction, self.arrive)
        else:
            self.deliver()


class Network:
    """All links; a link is an ordered pair of hosts."""

    def __init__(self, scheduler: Scheduler, rng: Random, delay_us: int, mean_us: int) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._delay_us = delay_us
        self._mean_us = mean_us
        self.is_calm = False
        """True while drawn delays are bounded: at most `CALM_MEANS` of their means."""
        self.cut_links: set[tuple[int, int]] = set()
        """Links on which nothing arrives, until `heal`."""
        self._clogged_until: dict[tuple[int, int], int] = {}
        self._pipes: dict[Pipe, None] = {}
        self.sent = 0
        self.sent_checksum = 0
        """CRC-32 of all bytes that anybody sent, in order."""
        self.held = 0
        self.on_sent: Callable[[Pipe, Direction, int, bytes], None] | None = None
        """Called for all bytes that leave, with their time of arrival if nothing is cut."""
        self.extra_delay_us: Callable[[bytes], int] | None = None
        """Further delay of what is sent; what follows on the connection waits too."""
        self.passes: Callable[[Pipe, Direction, bytes], bytes] | None = None
        """Gives the part of a chunk that is sent at all (simulator/faults/lost_messages.py)."""
        self.factors: dict[tuple[int, int], int] = {}
        """Factors by which these links take longer than others."""
        self.capacities: dict[int, int] = {}
        """Chunks that all links from and to a host hold together at most; absent: any number."""
        self.on_full: Callable[[Pipe], None] = self.reset
        """Called with the connection whose next chunk finds no room; the chunk is lost."""

    # ---- links -------------------------------------------------------------------------------

    def cut(self, source: int, target: int) -> None:
        """Hold what is sent from source to target until `heal`."""
        self.cut_links.add((source, target))

    def heal(self, source: int, target: int) -> None:
        """Make a link work again and send on what it held."""
        self.cut_links.discard((source, target))
        for pipe in list(self._pipes):
            for direction in (pipe.to_server, pipe.to_client):
                if direction.link == (source, target) and direction.held:
                    held, direction.held = direction.held, []
                    for arrive in held:
                        self._scheduler.later(self._due_us(direction), arrive)

    def pass_one(self, source: int, target: int) -> bool:
        """Let the oldest of what a cut link holds arrive; False if it holds nothing."""
        link = (source, target)
        for pipe in self.pipes_between(source, target):
            for direction in (pipe.to_server, pipe.to_client):
                if direction.link == link and direction.held:
                    first, *rest = direction.held
                    direction.held = []
                    self.cut_links.discard(link)
                    first()
                    self.cut_links.add(link)
                    direction.held = rest
                    return True
        return False

    def heal_all(self) -> None:
        """Make every link work again."""
        for source, target in sorted(self.cut_links):
            self.heal(source, target)
        self._clogged_until.clear()

    def calm(self) -> None:
        """Heal every link, make all of them alike and roomy, and bound the delays from now on."""
        self.is_calm = True
        self.heal_all()
        self.capacities.clear()
        self.factors.clear()

    def make_uneven(self, factors: dict[tuple[int, int], int]) -> None:
        """Let these links take longer than others, each by its factor."""
        self.factors.update(factors)

    def make_even(self, links: Iterable[tuple[int, int]]) -> None:
        """Let these links take as long as others again."""
        for link in links:
            self.factors.pop(link, None)

    def limit(self, host: int, chunks: int) -> None:
        """Let all links from and to a host hold few chunks together."""
        self.capacities[host] = chunks

    def lift_limit(self, host: int) -> None:
        """Let the links of a host hold any number of chunks again."""
        self.capacities.pop(host, None)

    def clog(self, source: int, target: int, until_us: int) -> None:
        """Deliver nothing before a time, then everything at once."""
        self._clogged_until[source, target] = until_us

    def is_cut(self, source: int, target: int) -> bool:
        """True if nothing passes."""
        return (source, target) in self.cut_links

    def _schedule(self, direction: Direction, deliver: Callable[[], None]) -> None:
        """Send an event of a connection, which is no chunk of bytes."""
        signal = Signal(self, direction, deliver)
        self._scheduler.later(self._due_us(direction), signal.arrive)

    def hold(self, direction: Direction, arrive: Callable[[], None]) -> None:
        """Keep what arrives on a cut link until that heals."""
        self.held += 1
        direction.held.append(arrive)

    def _due_us(self, direction: Direction, extra_us: int = 0) -> int:
        """Draw when what leaves now arrives, if nothing is cut; after what left before."""
        link = direction.link
        # The logarithm is `expovariate(1.0)`, the call of which costs more than the rest.
        drawn_us = int(-log(1.0 - self._rng.random()) * self._mean_us)
        if self.is_calm:
            drawn_us = min(drawn_us, CALM_MEANS * self._mean_us)
        way_us = self._delay_us + drawn_us
        if self.factors:
            way_us *= self.factors.get(link, 1)
        due_us = self._scheduler.now_us + way_us + extra_us
        if due_us <= direction.last_us:
            due_us = direction.last_us + 1
        if self._clogged_until:
            due_us = max(due_us, self._clogged_until.get(link, 0))
        direction.last_us = due_us
        return due_us

    # ---- connections -------------------------------------------------------------------------

    def connect(self, client: End, host: int, find_server: Callable[[Pipe], End | None]) -> Pipe:
        """Open a connection; the client gets `opened` or `closed`.

        Args:
            client: the side that connects.
            host: the server's.
            find_server: called when the first packet arrives; None: nobody listens there.
        """
        pipe = Pipe(client, host)
        self._pipes[pipe] = None

        def arrive() -> None:
            if not pipe.is_open:
                return
            pipe.to_server.target = find_server(pipe)
            is_refused = pipe.to_server.target is None
            self._schedule(pipe.to_client, refuse if is_refused else opened)

        def opened() -> None:
            if pipe.is_open:
                client.opened()

        def refuse() -> None:
            if pipe.is_open:
                self._forget(pipe)
                client.closed(refused=True)

        def give_up() -> None:
            if pipe.is_open and pipe.to_server.target is None:
                self._forget(pipe)
                client.closed(refused=False)

        self._schedule(pipe.to_server, arrive)
        self._scheduler.after(CONNECT_GIVE_UP_US, give_up)
        return pipe

    def send(self, pipe: Pipe, data: bytes, *, to_server: bool) -> None:
        """Send bytes."""
        if not pipe.is_open:
            return
        self.sent += 1
        self.sent_checksum = crc32(data, self.sent_checksum)
        direction = pipe.to_server if to_server else pipe.to_client
        if self.passes is not None and not (data := self.passes(pipe, direction, data)):
            return
        if self.capacities and self._is_full(direction.link):
            self.on_full(pipe)
            return
        direction.in_flight += 1
        extra_us = 0 if self.extra_delay_us is None else self.extra_delay_us(data)
        due_us = self._due_us(direction, extra_us)
        self._scheduler.later(due_us, Chunk(self, pipe, direction, data).arrive)
        if self.on_sent is not None:
            self.on_sent(pipe, direction, due_us, data)

    def _is_full(self, link: tuple[int, int]) -> bool:
        for host in link:
            capacity = self.capacities.get(host)
            if capacity is not None:
                pipes = [pipe for pipe in self._pipes if host in pipe.hosts]
                count = sum(p.to_server.in_flight + p.to_client.in_flight for p in pipes)
                if count >= capacity:
                    return True
        return False

    def close(self, pipe: Pipe, *, by_server: bool) -> None:
        """Close one side (also by a kill): the other learns of it after what was sent before."""
        if not pipe.is_open:
            own = pipe.to_server if by_server else pipe.to_client
            pipe.unaware = tuple(direction for direction in pipe.unaware if direction is not own)
            return
        direction = pipe.to_client if by_server else pipe.to_server

        def deliver() -> None:
            if pipe.is_open:
                self._forget(pipe)
                if direction.target is not None:
                    direction.target.closed(refused=False)

        self._schedule(direction, deliver)

    def reset(self, pipe: Pipe) -> None:
        """Break a connection now for both sides, with what is in flight."""
        if not pipe.is_open:
            return
        self._forget(pipe)
        for end in (pipe.to_client.target, pipe.to_server.target):
            if end is not None:
                end.closed(refused=False)

    def break_off(self, pipe: Pipe, late: Direction | None) -> None:
        """Break a connection with what is in flight; each side learns of it in its own event.

        Args:
            pipe: an open connection.
            late: to the side that learns of it only seconds later; None: both learn at once.
        """
        assert pipe.is_open
        self._forget(pipe)
        pipe.unaware = (pipe.to_server, pipe.to_client)

        def notify(direction: Direction) -> None:
            is_unaware = direction in pipe.unaware  # else that side has closed it meanwhile
            pipe.unaware = tuple(other for other in pipe.unaware if other is not direction)
            if is_unaware and direction.target is not None:
                direction.target.closed(refused=False)

        for direction in pipe.unaware:
            delay_us = self._silence_us() if direction is late else 0
            self._scheduler.after(delay_us, partial(notify, direction))

    def lose(self, host: int, *, is_silent: bool) -> None:
        """Break all connections of a host; silent: the others notice seconds later."""
        for pipe in list(self._pipes):
            client_host, server_host = pipe.hosts
            if host not in (client_host, server_host):
                continue
            by_server = server_host == host
            if is_silent:
                other = pipe.to_client.target if by_server else pipe.to_server.target
                self._forget(pipe)
                if other is not None:
                    self._notify_later(other)
            else:
                self.close(pipe, by_server=by_server)

    def _notify_later(self, end: End) -> None:
        self._scheduler.after(self._silence_us(), lambda: end.closed(refused=False))

    def _silence_us(self) -> int:
        return int(self._rng.expovariate(1.0) * SILENCE_MEAN_US) + RETRANSMIT_US

    def pipes_of(self, hosts: Collection[int], other: int) -> list[Pipe]:
        """Open connections of any of these hosts to one that serves them."""
        return [pipe for pipe in self._pipes if pipe.hosts[0] in hosts and pipe.hosts[1] == other]

    def pipes_between(self, one: int, other: int) -> list[Pipe]:
        """Open connections between two hosts."""
        return [pipe for pipe in self._pipes if set(pipe.hosts) == {one, other}]

    def _forget(self, pipe: Pipe) -> None:
        pipe.is_open = False
        self._pipes.pop(pipe, None)
