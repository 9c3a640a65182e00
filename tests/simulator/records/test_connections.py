"""Connections of a simulated broker of records."""

from storage.segments.file_slice import FileSlice
from tests.simulator.records.worlds import leader_of, quiet_records, segments_of


def test_a_connection_breaks_at_bytes_that_were_announced_and_truncated():
    world = quiet_records(until_us=1_000_000)
    machine = leader_of(world)
    file = machine.vfs.open(segments_of(machine)[0])
    sockets = machine.records.sockets.values()
    whole, cut = (each for each in sockets if each._pipe.hosts[0] in world.nodes)  # fetchers
    for socket, more in ((whole, 0), (cut, 1)):
        socket.send([b"head", FileSlice(file.share(), 0, file.size() + more, 0, 0), b"tail"])
    world.run(1_010_000)
    assert cut._pipe.is_open is False
    assert cut._id not in machine.records.sockets
    assert whole._pipe.is_open is True
