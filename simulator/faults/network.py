"""Faults of the network: links that are cut, held, uneven or full, and messages that vanish."""

from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from simulator.checks.raft.leadership import epoch_of, has_newer_epoch, leads
from simulator.cluster.machine import Machine
from simulator.cluster.network import Pipe
from simulator.faults.decision import Decision
from simulator.faults.fault import Reach
from simulator.faults.impact import AT_ONCE_US, Impact, impact_on
from simulator.faults.lost_messages import rule_of

Link = tuple[int, int]
"""Source and target."""

DEPOSED_WITHIN_US: Final = 6_000_000
HEALED_EARLIEST_US: Final = 250
WATCHED_EVERY_US: Final = 500
CAPACITIES: Final = (*range(2, 6), *range(2, 6), *range(2, 21))
"""Chunks that the links of a node may hold; few of them have more than five in flight."""

WAYS: Final = {
    "reset": "connections reset",
    "cut_answers": "no answers",
    "cut_requests": "no requests",
    "clog": "nothing passes",
}
"""Ways in which links of clients break, and their text in the trace."""


def end_network_faults(reach: Reach) -> None:
    """End every network fault: links heal and are alike, lose nothing, and delays are bounded."""
    reach.network.calm()
    reach.lost.lose_nothing()


# ---- links between nodes ---------------------------------------------------------------------


def partition(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut all links between these nodes and the others."""
    inside = {machine.id for machine in machines}
    links = [(a, b) for a, b in reach.links() if (a in inside) != (b in inside)]
    return impact_on(machines if _cut(reach, decision, links) else (), decision)


def one_way(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut what these nodes send to the others, or what the others send to them."""
    inside = {machine.id for machine in machines}
    outward = decision.amount % 2 == 0
    links = [
        (a, b)
        for a, b in reach.links()
        if (a in inside) is outward and (b in inside) is not outward
    ]
    how = "what they send" if outward else "what they are sent"
    return impact_on(machines if _cut(reach, decision, links) else (), decision, how)


def clog(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Hold everything on the link from one node to another until the fault is over."""
    if len(machines) < 2:
        return None
    source, target = machines[0].id, machines[1].id
    reach.network.clog(source, target, reach.scheduler.now_us + decision.length_us)
    return impact_on(machines, decision, f"from {source} to {target}")


def reset(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Reset all connections between two nodes."""
    del decision
    if len(machines) < 2:
        return None
    nodes = (machines[0].id, machines[1].id)
    pipes = reach.network.pipes_between(*nodes)
    for pipe in pipes:
        reach.network.reset(pipe)
    how = f"connections: {len(pipes)}"
    return Impact(nodes=nodes, how=how, length_us=AT_ONCE_US) if pipes else None


def swizzle(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the links of nodes one after the other, and heal them in another order."""
    rng = decision.chance
    lost: set[int] = set()

    def lose(number: int) -> None:
        lost.add(number)
        for link in reach.links():
            if number in link and not reach.is_over():
                reach.network.cut(*link)

    def get_back(number: int) -> None:
        lost.remove(number)
        for link in reach.links():
            if number in link and not lost & set(link) and not reach.is_over():
                reach.network.heal(*link)

    step_us = decision.length_us // (2 * len(machines))
    numbers = [machine.id for machine in machines]
    for place, number in enumerate(numbers):
        reach.scheduler.after(place * step_us, partial(lose, number))
    rng.shuffle(numbers)
    for place, number in enumerate(numbers, len(numbers)):
        reach.scheduler.after(place * step_us, partial(get_back, number))
    reach.probes.hit("swizzled")
    return impact_on(machines if reach.links() else (), decision)


def uneven_links(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Slow down every link of these nodes by a factor, each way by its own."""
    reach.probes.hit("links_uneven")
    far = {machine.id for machine in machines}
    links = [(a, b) for a in reach.machines for b in reach.machines if a != b]
    factors = {}
    for link in links:
        if far & set(link):
            rng = Random(f"{decision.at_us}/{link}")  # noqa: S311 - simulated chance
            factors[link] = 1 + rng.randrange(max(1, decision.amount))
    reach.network.make_uneven(factors)

    def end() -> None:
        reach.network.make_even(factors)

    reach.later(decision, end)
    times = ", ".join(f"{a} to {b}: {factor} times" for (a, b), factor in factors.items())
    return impact_on(machines if factors else (), decision, times)


def full_link(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Let the links of a node hold few chunks together; a connection with one more is lost.

    They fill because nothing passes between the nodes for the length of the fault, or, every
    fourth time, by normal traffic. Both sides of a lost connection learn of it at once, or, every
    second time, one of them by its time-out.
    """
    rng = decision.chance
    network, number = reach.network, machines[0].id

    def lose(pipe: Pipe) -> None:
        late = rng.choice((None, None, pipe.to_server, pipe.to_client))
        reach.probes.hit("full_link_reset" if late is None else "full_link_told_one_side")
        network.break_off(pipe, late)

    network.on_full = lose
    capacity = rng.choice(CAPACITIES)
    network.limit(number, capacity)
    how = f"{capacity} chunks"
    if rng.random() < 0.75:
        how += ", nothing passes"
        for link in _links_of(reach, machines, is_both_ways=True):
            network.clog(*link, reach.scheduler.now_us + decision.length_us)

    def end() -> None:
        network.lift_limit(number)

    reach.later(decision, end)
    return impact_on(machines[:1], decision, how)


def lost_messages(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Lose frames of one kind on the links from a node, or between two nodes."""
    watch_messages(reach)
    rule = rule_of(decision.messages, _links_of(reach, machines, is_both_ways=False))
    reach.lost.lose(rule)

    def end() -> None:
        reach.lost.spare(rule)

    reach.later(decision, end)
    return impact_on(machines if rule.links else (), decision, decision.messages)


def watch_messages(reach: Reach) -> None:
    """Remember requests from now on, so that a later fault can tell their responses."""
    reach.network.passes = reach.lost.passed


# ---- the leader's links ----------------------------------------------------------------------


def depose_leader(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Cut the leader off until others have a newer epoch, then let everything through.

    What it sent meanwhile arrives just then: responses of the old epoch meet nodes of the new.
    Every second time its successor is cut off in the moment in which it becomes leader, with
    a first record that no other node has.
    """
    machines = list(reach.machines.values())
    leading = [m for m in machines if m.kernel is not None and leads(m)]
    if not leading:
        return None
    reach.probes.hit("leader_cut_off")
    number = max(leading, key=epoch_of).id
    sends_only = decision.amount % 3 == 0
    links = [(a, b) for a, b in reach.links() if a == number or (b == number and not sends_only)]
    how = "the leader, what it sends" if sends_only else "the leader"
    impact = Impact(nodes=(number,), how=how, length_us=None)
    epoch = epoch_of(reach.machines[number])
    wants_leader = decision.amount % 2 == 1
    began_us = reach.scheduler.now_us
    for link in links:
        reach.network.cut(*link)

    def heal() -> None:
        impact.length_us = reach.scheduler.now_us - began_us
        for link in links:
            reach.network.heal(*link)

    scheduler, end_us, seen = reach.scheduler, began_us + DEPOSED_WITHIN_US, -1

    def watch() -> None:
        nonlocal seen
        if reach.is_over():
            return
        now_us = scheduler.now_us
        if reach.roles.changes == seen and now_us < end_us:  # nearly always
            scheduler.later(now_us + WATCHED_EVERY_US, watch)
            return
        seen = reach.roles.changes
        is_time = has_newer_epoch(machines, epoch, by_leader=wants_leader)
        if is_time and wants_leader:
            heal()
            reach.carry_out(replace(decision, at_us=now_us, amount=decision.amount - 1))
        elif is_time or now_us >= end_us:
            reach.after(decision.amount * HEALED_EARLIEST_US, heal)
        else:
            scheduler.later(now_us + WATCHED_EVERY_US, watch)

    watch()
    return impact


# ---- links of clients ------------------------------------------------------------------------


def client_links(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Reset, cut one way or clog the connections of one client or all to a healthy broker.

    What is cut or clogged arrives later: a request after its client gave up, an answer that no
    client waits for any more.
    """
    rng = decision.chance
    hosts = reach.client_hosts
    if rng.random() < 0.5:
        hosts = (rng.choice(hosts),)
    way = rng.choice(tuple(WAYS))
    hit = [
        machine
        for machine in machines
        if machine.config.is_broker and _break_off(reach, decision, way, hosts, machine)
    ]
    impact = impact_on(hit, decision, f"{WAYS[way]}, clients {', '.join(map(str, hosts))}")
    if impact is not None and way == "reset":
        impact.length_us = AT_ONCE_US
    return impact


def _break_off(
    reach: Reach, decision: Decision, way: str, hosts: tuple[int, ...], machine: Machine
) -> bool:
    """Break links of clients to a broker in one of `WAYS`; False: there was nothing to reset."""
    requests = [(host, machine.id) for host in hosts]
    answers = [(machine.id, host) for host in hosts]
    if way == "reset":
        pipes = reach.network.pipes_of(hosts, machine.id)
        for pipe in pipes:
            reach.probes.hit("client_connection_reset")
            reach.network.reset(pipe)
        return bool(pipes)
    if way == "clog":
        reach.probes.hit("client_link_clogged")
        for link in [*requests, *answers]:
            reach.network.clog(*link, reach.scheduler.now_us + decision.length_us)
    else:
        reach.probes.hit("client_link_cut")
        _cut(reach, decision, requests if way == "cut_requests" else answers)
    return True


def requests_late_us(plan: list[Decision]) -> int:
    """Bound on how late a request may arrive after its client gave up, by the faults of a plan."""
    faults = (decision for decision in plan if decision.kind == "client_links")
    return sum(decision.length_us for decision in faults)  # one after the other may hold it


# ---- parts -----------------------------------------------------------------------------------


def _cut(reach: Reach, decision: Decision, links: list[Link]) -> bool:
    """Cut links until the fault is over; False if all of them were cut already."""
    any_whole = not all(reach.network.is_cut(*link) for link in links)
    for link in links:
        reach.network.cut(*link)

    def heal() -> None:
        for link in links:
            reach.network.heal(*link)

    reach.later(decision, heal)
    return any_whole


def _links_of(reach: Reach, machines: list[Machine], *, is_both_ways: bool) -> frozenset[Link]:
    """Links between two nodes both ways; of a single one to all others, and back if asked for."""
    first, *rest = [machine.id for machine in machines]
    others = rest or [number for number in reach.machines if number != first]
    links = {(first, other) for other in others}
    if is_both_ways or rest:
        links |= {(other, first) for other in others}
    return frozenset(links)
