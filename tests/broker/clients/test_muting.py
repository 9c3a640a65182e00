"""Throttle times: a connection is unmuted once, when the last of them is over."""

from broker.clients.client import Client
from broker.clients.muting import MutedClients


def test_a_connection_is_unmuted_once_behind_its_last_throttle_time() -> None:
    client, other = Client(1, "L", "127.0.0.1"), Client(2, "L", "127.0.0.1")
    clients = {1: client, 2: other}
    muted = MutedClients()
    for until_ms in (10, 10, 20, 15):
        muted.mute(client, until_ms)
    muted.mute(other, 12)
    assert muted.next_ms() == 10
    assert list(muted.over(12, clients)) == [other]
    assert client.muted_until_ms == 20
    assert list(muted.over(20, clients)) == [client]
    assert (client.muted_until_ms, muted.next_ms()) == (0, None)


def test_the_same_throttle_time_twice_is_one() -> None:
    client, muted = Client(1, "L", "127.0.0.1"), MutedClients()
    muted.mute(client, 10)
    muted.mute(client, 10)
    assert list(muted.over(10, {1: client})) == [client]
