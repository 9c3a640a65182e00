"""Figures of the benchmark of records."""

from benchmarks.records import Servers, cpu_ms
from benchmarks.records_load import Load

NOWHERE = "127.0.0.1:1"
"""No process of this machine listens there."""


def test_a_load_counts_the_bytes_of_its_values() -> None:
    load = Load(records=3_000, record_bytes=1_000, wall_s=2.0)
    assert (load.megabytes, load.mb_per_s, load.per_s) == (3.0, 1.5, 1_500)


def test_the_cpu_of_servers_elsewhere_is_not_known() -> None:
    servers = Servers([NOWHERE])
    assert servers.cpu_s is None
    assert servers.rss_mb is None
    assert cpu_ms(servers, None, 1.0) is None
