"""Connections of clients to healthy brokers that break or hold what is on them."""

from random import Random
from typing import Final

from simulator.drawn_faults import DrawnFaults, Reach
from simulator.felt import AT_ONCE_US, Felt, felt_by
from simulator.machine import Machine
from simulator.plan import Decision

WAYS: Final = {
    "reset": "connections reset",
    "cut_answers": "no answers",
    "cut_requests": "no requests",
    "clog": "nothing passes",
}
"""How it is done, and how that is told."""


class ClientLinks(DrawnFaults):
    """Carries out the decisions of the kind `client_links`.

    Args:
        reach: what it may touch.
        hosts: of the clients.
    """

    def __init__(self, reach: Reach, hosts: tuple[int, ...]) -> None:
        super().__init__(reach)
        self._hosts = hosts

    def client_links(self, decision: Decision, machines: list[Machine]) -> Felt | None:
        """Connections of one client or all to a healthy broker are reset, cut one way or clogged.

        What is cut or clogged arrives later: a request when its client has given it up, an answer
        for which nobody waits any more.
        """
        rng = Random(f"{decision.at_us}/{decision.amount}")  # noqa: S311 - simulated chance
        hosts = self._hosts
        if rng.random() < 0.5:
            hosts = (rng.choice(hosts),)
        way = rng.choice(tuple(WAYS))
        hit = []
        for machine in machines:
            if not machine.config.is_broker:
                continue
            requests = [(host, machine.id) for host in hosts]
            answers = [(machine.id, host) for host in hosts]
            if way == "reset":
                if not self._reset(hosts, machine):
                    continue
            elif way == "clog":
                self._clog([*requests, *answers], decision.length_us)
            else:
                self._cut(decision, requests if way == "cut_requests" else answers)
            hit.append(machine)
        felt = felt_by(decision, hit, f"{WAYS[way]}, clients {', '.join(map(str, hosts))}")
        if felt is not None and way == "reset":
            felt.length_us = AT_ONCE_US
        return felt

    def _reset(self, hosts: tuple[int, ...], machine: Machine) -> bool:
        """Whether there was any connection."""
        pipes = self._network.pipes_of(hosts, machine.id)
        for pipe in pipes:
            self._probes.hit("client_connection_reset")
            self._network.reset(pipe)
        return bool(pipes)

    def _clog(self, links: list[tuple[int, int]], length_us: int) -> None:
        self._probes.hit("client_link_clogged")
        for link in links:
            self._network.clog(*link, self._scheduler.now_us + length_us)

    def _cut(self, decision: Decision, links: list[tuple[int, int]]) -> None:
        self._probes.hit("client_link_cut")
        for link in links:
            self._network.cut(*link)

        def heal() -> None:
            for link in links:
                self._network.heal(*link)

        self._later(decision, heal)


def requests_late_us(plan: list[Decision]) -> int:
    """How long after its client gave up a request may still arrive, by the faults of a plan."""
    faults = (decision for decision in plan if decision.kind == "client_links")
    return sum(decision.length_us for decision in faults)  # one after the other may hold it
