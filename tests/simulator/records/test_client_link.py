"""A client's connection: what is answered, in which order, and what is not."""

from random import Random

import pytest

from simulator.cluster.network import Network
from simulator.cluster.scheduler import Scheduler
from simulator.records.client_link import ClientLink
from wire.api_keys import API_VERSIONS, FETCH
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.connection import ServerConnection
from wire.messages.codec import default_request, newest
from wire.messages.conversion import default_entity

APIS = apis(ListenerKind.CONTROLLER, [FETCH])


class Server:
    """A node that answers all Fetches at once, as soon as it has two."""

    host = 1

    def __init__(self, network):
        self.network = network
        self.connection = ServerConnection(APIS, 1 << 20)
        self.fetches = []

    def received(self, data):
        for request in self.connection.receive(data):
            if request.api_key == API_VERSIONS:
                self.send(self.connection.respond(request.reply_slot, api_versions_body(APIS)))
            else:
                self.fetches.append(request.reply_slot)
        if len(self.fetches) == 2:
            body = default_entity(newest(FETCH, "response").FetchResponse)
            self.send(b"".join(self.connection.respond(slot, body) for slot in self.fetches))

    def send(self, data):
        self.network.send(self.pipe, data, to_server=False)

    def closed(self, *, refused):
        pass


@pytest.mark.parametrize("closes", [False, True])
def test_an_answer_behind_one_whose_taker_closes_the_connection_is_dropped(closes):
    scheduler = Scheduler()
    network = Network(scheduler, Random(7), delay_us=100, mean_us=1_000)
    server, answers = Server(network), []

    def connect(link):
        server.pipe = network.connect(link, Server.host, lambda _: server)
        return server.pipe

    def taken(body):
        answers.append(body is not None)
        if closes:
            link.close()

    link = ClientLink(900, Server.host, network, scheduler, connect)
    for _ in range(2):
        link.request(FETCH, default_request(FETCH), taken, 1_000_000)
    assert not scheduler.run(500_000)
    assert answers == [True, not closes]
