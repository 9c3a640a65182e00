"""`cluster`: what recorded outputs do not show."""

from argparse import Namespace
from typing import NamedTuple

import pytest

from cli.admin import cluster


class Row(NamedTuple):
    """One row of a DescribeCluster answer."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


@pytest.mark.parametrize(("racks", "width"), [
    ((None, None), 10),  # printed by Kafka 4.3.1's tool, asking nodes of this software
    (("eu", None), 2),
    (("eu-central-1a", "eu"), 13),
])  # fmt: skip
def test_columns_are_as_wide_as_the_longest_name(racks: tuple[str | None, ...], width: int) -> None:
    nodes = [Row(number, "127.0.0.1", 9092, rack) for number, rack in enumerate(racks, start=1)]
    options = Namespace(bootstrap_controller=None, json=False)
    answer = Namespace(brokers=nodes)
    first, second, *_ = cluster._endpoints(answer, options).splitlines()
    assert first == f"ID         HOST      PORT       {'RACK':<{width}} STATE      ENDPOINT_TYPE  "
    assert second == (
        f"1          127.0.0.1 9092       {racks[0] or 'null':<{width}} unfenced   broker         "
    )
