"""`--append` accepts only the log that the archive was fed from; else nothing changes."""

import shutil

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from metadata.image import EMPTY
from metadata.loader import committed_batches
from metadata.snapshot import encode_snapshot, snapshot_records
from pipeline.cli import main
from pipeline.core.errors import BadInputError, DataLossError
from pipeline.jobs.history import query as history_query
from pipeline.jobs.history import run as history
from pipeline.jobs.publishing import current_version
from tests.pipeline.controller_logs import LEVEL, ControllerLog
from tests.pipeline.history_runs import build, configured, contents, image_at, position_of
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log


def write_cluster(root, cluster_id, node_id=1):
    root.mkdir(parents=True, exist_ok=True)
    text = f"version=1\nnode.id={node_id}\ncluster.id={cluster_id}\n"
    (root / "meta.properties").write_text(text)
    return root


def write_snapshot(root, image, end, epoch=1):
    parts = encode_snapshot(
        snapshot_records(image), level=LEVEL, epoch=epoch, last_contained_timestamp_ms=1,
        timestamp_ms=1,
    )  # fmt: skip
    path = root / "__cluster_metadata-0" / f"{end:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(b"".join(parts))
    return path


def at_half(log):
    """An offset about the middle of the log that no transaction crosses."""
    batches = list(committed_batches(log.content))
    ends = [one.end_offset for one in batches]
    half = len(ends) // 2
    is_open, quiet = False, []
    for one in batches:
        for record in one.records:
            if "Transaction" in type(record).__name__:
                is_open = type(record).__name__.startswith("Begin")
        if not is_open:
            quiet.append(one.end_offset)
    return next(end for end in quiet if end >= ends[half])


@pytest.fixture(scope="module")
def log():
    return ControllerLog(31, 60)


@pytest.fixture(scope="module")
def half(log):
    return at_half(log)


@pytest.fixture(scope="module")
def archive(log, half, tmp_path_factory):
    """An archive of the first half beside the folder it was fed from."""
    folder = tmp_path_factory.mktemp("archive")
    root = write_cluster(folder / "in", "here")
    write_metadata_log(root, log.content[: position_of(log.content, half)])
    build(root, folder / "out", "--append", run_id="r0")
    return folder


@pytest.fixture
def fed(archive, tmp_path):
    """A copy of `archive` for one test: root, out."""
    folder = tmp_path / "copy"
    shutil.copytree(archive, folder, symlinks=True)
    return folder / "in", folder / "out"


def refused(root, out, error, match, *flags):
    """The append ends with an error and the archive is as it was."""
    before = contents(out)
    with pytest.raises(error, match=match):
        build(root, out, "--append", *flags, run_id="r1")
    assert current_version(out).name == "r0"
    assert contents(out) == before


def continue_from(root, log, half):
    """Leave only what comes after the archive's end."""
    home = root / "__cluster_metadata-0"
    for path in home.iterdir():
        path.unlink()
    write_metadata_log(root, log.content[position_of(log.content, half) :], half)


def test_another_cluster(fed, log):
    root, out = fed
    write_metadata_log(root, log.content)
    write_cluster(root, "elsewhere")
    refused(root, out, BadInputError, "elsewhere.*archive.* here")
    write_metadata_log(root, log.content[: len(log.content) // 8])  # ends before the archive
    refused(root, out, BadInputError, "elsewhere.*archive.* here")


def test_a_copy_that_does_not_tell_its_cluster_goes_on_and_the_archive_remembers(fed, log):
    root, out = fed
    (root / "meta.properties").unlink()
    write_metadata_log(root, log.content)
    assert build(root, out, "--append", run_id="r1").counters["end_offset"] == log.offset
    write_cluster(root, "elsewhere")
    with pytest.raises(BadInputError, match="elsewhere"):
        build(root, out, "--append", run_id="r2")


@pytest.mark.parametrize("more", [False, True])
def test_a_log_whose_last_archived_batch_has_another_epoch(fed, log, half, more):
    """A leader changed and the end was written anew; also when the new end is the old one."""
    root, out = fed
    last = next(b for b in committed_batches(log.content) if b.end_offset == half)
    start = position_of(log.content, last.base_offset)
    end = len(log.content) if more else position_of(log.content, half)
    content = bytearray(log.content[:end])
    content[start + 12 : start + 16] = (last.epoch + 7).to_bytes(4, "big")  # no part of the CRC
    write_metadata_log(root, bytes(content))
    refused(root, out, DataLossError, f"epoch {last.epoch + 7}.*another|diverged")


@pytest.mark.parametrize("more", [False, True])
def test_a_log_whose_last_archived_batch_has_another_content(fed, log, half, more):
    root, out = fed
    other = RandomLog(32, 80)
    start = position_of(other.content, half)
    end = len(other.content) if more else start
    write_metadata_log(root, other.content[:end])
    refused(root, out, DataLossError, "crc|epoch|ends at offset")


def test_a_log_that_was_cut(fed, log, half):
    root, out = fed
    write_metadata_log(root, log.content[: position_of(log.content, half) // 2])
    refused(root, out, DataLossError, f"the archive at {half}")


def test_a_log_that_begins_above_the_end(fed, log, half):
    root, out = fed
    batches = list(committed_batches(log.content))
    start = next(one.end_offset for one in batches if one.base_offset >= half)
    continue_from(root, log, start)
    write_snapshot(root, image_at(batches, start), start)
    refused(root, out, DataLossError, f"offsets from {half} on are gone")


def test_a_log_that_begins_at_the_end_goes_on_when_its_snapshot_agrees(fed, log, half):
    root, out = fed
    whole = out.parent / "whole"
    build(write_metadata_log(out.parent / "all", log.content), whole)
    continue_from(root, log, half)
    write_snapshot(root, image_at(committed_batches(log.content), half), half)
    assert build(root, out, "--append", run_id="r1").findings == 0
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("above", [False, True])
def test_a_log_that_begins_at_the_end_is_refused_when_its_snapshot_differs(fed, log, half, above):
    root, out = fed
    continue_from(root, log, half)
    write_snapshot(root, EMPTY, log.offset if above else half)
    refused(root, out, BadInputError, "snapshot_mismatch|says otherwise")


def test_a_log_that_begins_at_the_end_and_nothing_vouches_for_it(fed, log, half):
    root, out = fed
    continue_from(root, log, half)
    (root / "meta.properties").unlink()
    refused(root, out, BadInputError, "where the archive .* ends; neither")


def test_a_snapshot_below_the_end_that_differs_is_a_finding(fed, log, half, capsys):
    root, out = fed
    name = write_snapshot(root, EMPTY, half).name
    before = contents(out)
    # nothing new: nothing published, but said
    assert build(root, out, "--append", run_id="r1").findings > 0
    assert current_version(out).name == "r0"
    assert contents(out) == before
    assert name in capsys.readouterr().err
    write_metadata_log(root, log.content)
    assert build(root, out, "--append", run_id="r2").findings > 0
    rows = pq.read_table(out / "findings").to_pylist()
    assert {row["snapshot"] for row in rows} == {name}
    # as long as it lies there
    assert build(root, out, "--append", run_id="r3").findings > 0
    (root / "__cluster_metadata-0" / name).unlink()
    assert build(root, out, "--append", run_id="r4").findings == 0


def test_secrets_are_shown_or_hidden_from_beginning_to_end(fed, log):
    root, out = fed
    write_metadata_log(root, log.content)
    refused(root, out, BadInputError, "--reveal must be", "--reveal")


def test_of_several_copies_the_one_that_goes_on_is_read(fed, log, half, tmp_path):
    """The first reaches back furthest, but ends below the archive."""
    _, out = fed
    roots = tmp_path / "nodes"
    first = write_cluster(roots / "n1", "here", 1)
    write_metadata_log(first, log.content[: position_of(log.content, half) // 2])
    start = max(b.base_offset for b in committed_batches(log.content) if b.end_offset <= half)
    second = write_cluster(roots / "n2", "here", 2)
    write_metadata_log(second, log.content[position_of(log.content, start) :], start)
    assert build(roots, out, "--append", run_id="r1").counters["end_offset"] == log.offset


def test_a_refused_append_is_exit_code_2(fed, log, capsys):
    root, out = fed
    write_cluster(root, "elsewhere")
    command = ["history", "--append", "--input", str(root), "--output", str(out)]
    assert main(command) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"pipeline history: {root}")
    assert main([*command, "--dry-run"]) == 2


def test_a_dry_run_tells_what_an_append_would_read(fed, log, half):
    root, out = fed
    write_metadata_log(root, log.content)
    config = replace(configured(root, out, "--append"), dry_run=True)
    found = history.build(config).counters
    assert (found["start_offset"], found["end_offset"]) == (half, log.offset)
    assert history_query.counters(out)["end_offset"] == half
