"""The cost of look-ups by time."""

from simulator.cluster.memory_vfs import MemoryVfs
from tests.storage.test_unified_log import NOW, opened, produced


def test_a_look_up_by_time_tells_what_it_reads() -> None:
    """10 units, 2 for each header, and those of the records and bytes of the batch it decodes."""
    log = opened(MemoryVfs(), index_interval_bytes=1 << 20)
    large = produced(*range(200, 300), value=b"v" * 3_000)
    for batch in (produced(100), produced(150), large):
        log.append_as_leader(batch, 2, NOW)
    for timestamp_ms, units in ((100, 13), (150, 15), (200, 16 + 100 + 146), (300, 0)):
        costs: list[int] = []
        log.at_timestamp(timestamp_ms, costs.append)
        assert sum(costs) == units
    costs = []
    log.with_max_timestamp(costs.append)
    assert sum(costs) == 16 + 100 + 146
