"""Metadata logs, snapshots, indexes of all nodes of six clusters, as Kafka's tool prints them.

`metadata-nodes.tar.xz` has per scenario the folders n1, n2, ... and `dump/`, the outputs.
"""

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from cli.offline.dump_log import run
from tests.archives import unpack
from wire.batches.batch import iterate_batches

ARCHIVE = Path(__file__).resolve().parents[2] / "golden" / "metadata-nodes.tar.xz"
CONTROL_RECORD = re.compile(r"(?m)^(\| offset: .* headerKeys: \[\] )(?:\w+: \{.*|controlType: .*)$")
"""Kafka 3.9.1 prints the type of a control record, 4.3.1 its content too."""


def names() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        return archive.getnames()


DUMPS = [name for name in names() if "/dump/" in name]
SCENARIOS = sorted({name.split("/")[0] for name in names()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("nodes")
    with tarfile.open(ARCHIVE) as archive:
        unpack(archive, target)
    return target


def test_everything_is_here() -> None:
    assert len(DUMPS) == 62
    assert len(SCENARIOS) == 6


@pytest.mark.parametrize("name", DUMPS)
def test_printed_as_by_kafka(
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario, _, dump = name.split("/")
    text = (folder / name).read_text()
    expected = text.partition("\n== stderr ==")[0].partition("\n== exit")[0].rstrip("\n")
    files = re.findall(r"(?m)^Dumping (.*)$", expected)
    node = folder / scenario / dump.split("-")[0]
    if "bootstrap" in dump:
        # Kafka's tool wants the name of a snapshot, so the file was renamed for it
        shutil.copyfile(node / "bootstrap.checkpoint", tmp_path / files[0])
        node = tmp_path
    monkeypatch.chdir(node)
    flags = ["--cluster-metadata-decoder"]
    if "index-sanity" in dump:
        flags = ["--index-sanity-check"]
    elif "index-verify" in dump:
        flags = ["--verify-index-only"]
    assert run([*flags, "--files", ",".join(files)]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    if scenario.endswith("3.9.1"):
        printed, expected = (CONTROL_RECORD.sub(r"\1control", t) for t in (printed, expected))
    assert printed == expected


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_logs_of_all_nodes_are_equal_where_they_overlap(scenario: str, folder: Path) -> None:
    """Byte for byte, batch by batch: by it our nodes may be compared in the same way."""
    batches: dict[int, bytes] = {}
    shared_count = 0
    for node in sorted((folder / scenario).glob("n*")):
        for segment in sorted((node / "__cluster_metadata-0").glob("0*.log")):
            for batch in iterate_batches(segment.read_bytes()):
                content = bytes(batch.buffer)
                first = batches.setdefault(batch.header.base_offset, content)
                assert first == content, f"{segment} at offset {batch.header.base_offset}"
                shared_count += first is not content
    assert shared_count > 10
