"""Connections arrive in order or not at all; cut links hold, clogged ones burst."""

from random import Random

import pytest

from simulator.cluster.network import CALM_MEANS, CONNECT_GIVE_UP_US, Network
from simulator.cluster.scheduler import Scheduler


class Side:
    """One end of a connection that remembers what it was told."""

    def __init__(self, host):
        self.host = host
        self.told = []

    def opened(self):
        self.told.append("opened")

    def received(self, data):
        self.told.append(data)

    def closed(self, *, refused):
        self.told.append("refused" if refused else "closed")


@pytest.fixture
def scheduler():
    return Scheduler()


@pytest.fixture
def network(scheduler):
    return Network(scheduler, Random(7), delay_us=100, mean_us=5_000)


def run(scheduler, until_us):
    assert not scheduler.run(until_us)


def connected(network, scheduler, client_host=1, server_host=2):
    client, server = Side(client_host), Side(server_host)
    pipe = network.connect(client, server_host, lambda _: server)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert client.told == ["opened"]
    client.told.clear()
    return client, server, pipe


@pytest.mark.parametrize("is_calm", [False, True])
def test_a_calm_network_has_no_delay_beyond_twice_the_mean(network, is_calm):
    delays = []
    network.on_sent = lambda _, __, due_us, ___: delays.append(due_us)
    network.is_calm = is_calm
    for _ in range(200):
        pipe = network.connect(Side(1), 2, lambda _: Side(2))
        network.send(pipe, b"x", to_server=False)
    assert (max(delays) <= 100 + CALM_MEANS * 5_000) is is_calm


def test_bytes_arrive_in_order_whatever_their_delays(network, scheduler):
    _, server, pipe = connected(network, scheduler)
    sent = [b"%d" % number for number in range(50)]
    for data in sent:
        network.send(pipe, data, to_server=True)
    run(scheduler, scheduler.now_us + 10_000_000)
    assert server.told == sent


def test_nobody_listens(network, scheduler):
    client = Side(1)
    network.connect(client, 2, lambda _: None)
    run(scheduler, 1_000_000)
    assert client.told == ["refused"]


def test_a_cut_link_holds_one_way_until_it_heals(network, scheduler):
    client, server, pipe = connected(network, scheduler)
    network.cut(1, 2)
    network.send(pipe, b"held", to_server=True)
    network.send(pipe, b"passes", to_server=False)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert (client.told, server.told) == ([b"passes"], [])
    network.heal(1, 2)
    network.send(pipe, b"behind", to_server=True)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert server.told == [b"held", b"behind"]


def test_a_connection_that_cannot_be_opened_is_given_up(network, scheduler):
    network.cut(1, 2)
    client = Side(1)
    network.connect(client, 2, lambda _: Side(2))
    run(scheduler, CONNECT_GIVE_UP_US + 1)
    assert client.told == ["closed"]


def test_a_clogged_link_bursts(network, scheduler):
    _, server, pipe = connected(network, scheduler)
    until_us = scheduler.now_us + 500_000
    network.clog(1, 2, until_us)
    for number in range(3):
        network.send(pipe, b"%d" % number, to_server=True)
    run(scheduler, until_us - 1)
    assert server.told == []
    run(scheduler, until_us + 10)
    assert server.told == [b"0", b"1", b"2"]


def test_a_reset_loses_what_is_on_the_way_and_both_hear_of_it(network, scheduler):
    client, server, pipe = connected(network, scheduler)
    network.send(pipe, b"lost", to_server=True)
    network.reset(pipe)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert (client.told, server.told) == (["closed"], ["closed"])


def test_a_close_comes_behind_what_was_sent(network, scheduler):
    _, server, pipe = connected(network, scheduler)
    network.send(pipe, b"last words", to_server=True)
    network.close(pipe, by_server=False)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert server.told == [b"last words", "closed"]


def test_a_machine_without_power_says_nothing_for_a_while(network, scheduler):
    client, server, _ = connected(network, scheduler)
    network.lose(2, is_silent=True)
    run(scheduler, scheduler.now_us + 199_000)
    assert (client.told, server.told) == ([], [])
    run(scheduler, scheduler.now_us + 200_000_000)
    assert client.told == ["closed"]


def test_what_a_cut_link_holds_passes_one_by_one(network, scheduler):
    client, server, pipe = connected(network, scheduler)
    for source, target in ((1, 2), (2, 1)):
        network.cut(source, target)
    for data in (b"first", b"second"):
        network.send(pipe, data, to_server=True)
    network.send(pipe, b"answer", to_server=False)
    assert not network.pass_one(1, 2)  # it is on its way still
    run(scheduler, scheduler.now_us + 1_000_000)
    assert network.pass_one(1, 2)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert (server.told, client.told) == ([b"first"], [])
    assert network.pass_one(1, 2)
    assert not network.pass_one(1, 2)
    network.send(pipe, b"third", to_server=True)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert server.told == [b"first", b"second"]
    assert network.pass_one(2, 1)
    assert client.told == [b"answer"]


@pytest.mark.parametrize("heal", [Network.heal_all, Network.calm])
def test_healing_everything_delivers_everything(network, scheduler, heal):
    _, server, pipe = connected(network, scheduler)
    network.cut(1, 2)
    network.send(pipe, b"one", to_server=True)
    run(scheduler, scheduler.now_us + 1_000_000)
    heal(network)
    assert not network.is_cut(1, 2)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert server.told == [b"one"]


def test_a_further_delay_keeps_the_order(network, scheduler):
    _, server, pipe = connected(network, scheduler)
    network.extra_delay_us = lambda data: 300_000 if data == b"late" else 0
    network.send(pipe, b"late", to_server=True)
    network.send(pipe, b"next", to_server=True)
    run(scheduler, scheduler.now_us + 200_000)
    assert server.told == []
    run(scheduler, scheduler.now_us + 400_000)
    assert server.told == [b"late", b"next"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_broken_connection_is_told_in_events_of_their_own(network, scheduler, is_late):
    client, server, pipe = connected(network, scheduler)
    network.send(pipe, b"lost", to_server=True)
    network.break_off(pipe, pipe.to_server if is_late else None)
    assert (client.told, server.told) == ([], [])
    run(scheduler, scheduler.now_us)
    assert (client.told, server.told) == (["closed"], [] if is_late else ["closed"])
    run(scheduler, scheduler.now_us + 200_000_000)
    assert (client.told, server.told) == (["closed"], ["closed"])


def test_a_side_that_closed_a_broken_connection_is_not_told(network, scheduler):
    client, server, pipe = connected(network, scheduler)
    network.break_off(pipe, pipe.to_client)
    network.close(pipe, by_server=False)
    run(scheduler, scheduler.now_us + 200_000_000)
    assert (client.told, server.told) == ([], ["closed"])


def test_a_host_with_so_many_chunks_under_way_is_full(network, scheduler):
    _, server, one = connected(network, scheduler)
    client, _, other = connected(network, scheduler, client_host=3)
    network.capacities[2] = 2
    network.send(one, b"1", to_server=True)
    network.send(other, b"2", to_server=True)
    network.send(other, b"3", to_server=True)
    assert (one.is_open, other.is_open) == (True, False)
    assert client.told == ["closed"]
    run(scheduler, scheduler.now_us + 1_000_000)
    network.send(one, b"4", to_server=True)
    run(scheduler, scheduler.now_us + 1_000_000)
    assert server.told == [b"1", b"4"], "there is room again"
