"""Metadata logs and snapshots of six clusters of Kafka, read with all their nodes: as printed."""

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from tests.archives import unpack
from tests.pipeline.segments import dump_lines
from tests.pipeline.test_golden import COLUMNS, printed_files

ARCHIVE = Path(__file__).resolve().parent.parent / "golden" / "metadata-nodes.tar.xz"
LEADER_CHANGE = re.compile(r"LeaderChange: .*")
READ = {
    "metadata": {"decode": "metadata"},
    "json": {"decode": "json", "includeControl": "true"}
    | {"columns": COLUMNS.format(value="json,apiName") + ",nodeId"},
}
Load = Callable[[Path, dict[str, str]], pa.Table]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("nodes")
    with tarfile.open(ARCHIVE) as archive:
        unpack(archive, target)
    return target


def in_process(path: Path, options: dict[str, str]) -> pa.Table:
    return read_table(parse_options({"path": str(path)} | options))


def check(scenario: Path, load: Load) -> int:
    """Compare every file that was printed; how many there were."""
    count = 0
    tables = {
        kind: load(scenario, options | {"includeSnapshots": "true", "replicas": "all"})
        for kind, options in READ.items()
    }
    for path in sorted((scenario / "dump").glob("*.txt")):
        node = path.name.partition("-")[0]
        for name, lines in printed_files(path.read_text()).items():
            segment = name.rpartition("/")[2]
            if "bootstrap" in path.name:
                # it was renamed for Kafka's tool, which takes only the name of a snapshot
                file = scenario / node / "bootstrap.checkpoint"
                mine = [load(file, options) for options in READ.values()]
            else:
                mine = [of(table, node, segment) for table in tables.values()]
            batches, records = mine[0].sort_by("position"), mine[1].sort_by("offset")
            found = dump_lines(batches, records)
            if scenario.name.endswith("3.9.1"):  # its tool does not print this one's content
                found = [LEADER_CHANGE.sub("controlType: LEADER_CHANGE(2)", x) for x in found]
            assert found == lines, (path.name, name)
            count += 1
    return count


def of(table: pa.Table, node: str, segment: str) -> pa.Table:
    wanted = pc.and_(
        pc.equal(table["nodeId"], int(node.removeprefix("n"))), pc.equal(table["segment"], segment)
    )
    return table.filter(wanted)


# files that were printed: segments, snapshots and bootstrap.checkpoint of some nodes
PRINTED = {
    "dynamic-4.3.1": 8, "kraft-upgrade-4.3.1": 4, "old-metadata-versions-3.9.1": 12,
    "single-4.3.1": 3, "static-3.9.1": 6, "static-4.3.1": 19,
}  # fmt: skip


@pytest.mark.parametrize("scenario", PRINTED)
def test_every_file_that_was_printed(nodes: Path, scenario: str) -> None:
    assert check(nodes / scenario, in_process) == PRINTED[scenario]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("scenario", PRINTED)
def test_every_file_through_spark(spark: object, nodes: Path, scenario: str) -> None:
    def through_spark(path: Path, options: dict[str, str]) -> pa.Table:
        return spark.read.format("kraft-log").options(**options).load(str(path)).toArrow()

    assert check(nodes / scenario, through_spark) == PRINTED[scenario]
