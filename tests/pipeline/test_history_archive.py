"""An archive of the metadata that is fed in parts: after crashes, again and again, too late."""

import pytest

from metadata.loader import committed_batches
from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.jobs.history import query as history_query
from pipeline.jobs.history import run as history
from pipeline.jobs.publishing import current_version
from tests.pipeline.history_runs import build, configured, contents, position_of
from tests.pipeline.local_fold import fold_here
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log


def parts_of(log, *shares):
    """The log up to each share of its batches, and whole."""
    starts = [batch.base_offset for batch in committed_batches(log.content)]
    cuts = [starts[int(len(starts) * share)] for share in shares]
    return [log.content[: position_of(log.content, cut)] for cut in cuts] + [log.content]


@pytest.fixture(scope="module")
def log():
    return RandomLog(21, 150)


@pytest.fixture(scope="module")
def whole(log, tmp_path_factory):
    """The tables of the log read at once."""
    folder = tmp_path_factory.mktemp("whole")
    build(write_metadata_log(folder / "in", log.content), folder / "out")
    return contents(folder / "out")


def test_tables_and_reports_of_an_archive_are_those_of_the_whole_log(log, whole, tmp_path):
    root, out = tmp_path / "in", tmp_path / "out"
    for number, content in enumerate(parts_of(log, 0.2, 0.3, 0.7, 0.71)):
        write_metadata_log(root, content)
        build(root, out, "--append", run_id=f"r{number}")
    assert contents(out) == whole
    assert len(whole["under_replicated"]) > 20
    assert len(whole["isr_churn"]) > 10


def test_an_append_that_fails_or_dies_leaves_the_archive_and_the_next_one_goes_on(
    log, whole, tmp_path
):
    first, second, everything = parts_of(log, 0.4, 0.8)
    root, out = tmp_path / "in", tmp_path / "out"
    write_metadata_log(root, first)
    build(root, out, "--append", run_id="r0")
    before = contents(out)
    damaged = bytearray(second)
    damaged[len(first) + 70] ^= 1
    write_metadata_log(root, bytes(damaged))
    with pytest.raises((BadInputError, CorruptSegmentError), match="bad_crc"):
        build(root, out, "--append", run_id="r1")
    assert contents(out) == before
    # what a killed run leaves at its worst: half of its tables and an unused version
    for place in ("_tmp/r2/partitions/current=true", "_versions/r3/partitions/current=true"):
        (out / place).mkdir(parents=True)
        (out / place / "partitions-0.parquet").write_bytes(b"PAR1")
    (out / "_current.next").symlink_to("_versions/r3")
    assert contents(out) == before
    for number, content in enumerate((second, everything)):
        write_metadata_log(root, content)
        build(root, out, "--append", run_id=f"r{4 + number}")
    assert contents(out) == whole
    assert not (out / "_tmp").exists()


def test_follow_appends_what_came_in_every_pause(log, whole, tmp_path):
    root, out = tmp_path / "in", tmp_path / "out"
    first, second, everything = parts_of(log, 0.3, 0.6)
    write_metadata_log(root, first)
    versions = []

    def pauses():
        for content in (second, second, everything):
            versions.append(current_version(out).name)
            yield write_metadata_log(root, content)

    result = history.follow(configured(root, out, "--follow", "0", run_id="r"), pauses())
    versions.append(current_version(out).name)
    # nothing new, nothing published
    assert versions == ["r", "r+0", "r+0", "r+2"]
    assert result.counters["end_offset"] == log.offset
    assert contents(out) == whole


def test_an_append_of_nothing_says_so_and_publishes_nothing(log, tmp_path):
    root, out = write_metadata_log(tmp_path / "in", log.content), tmp_path / "out"
    records = build(root, out, "--append", run_id="r0").counters["new_records"]
    assert records > 100
    assert build(root, out, "--append", run_id="r1").counters["new_records"] == 0
    assert current_version(out).name == "r0"


def test_an_archive_is_refused_records_that_are_gone_and_another_way_to_count(log, tmp_path):
    root, out = tmp_path / "in", tmp_path / "out"
    first, second, everything = parts_of(log, 0.3, 0.6)
    write_metadata_log(root, first)
    build(root, out, "--append", run_id="r0")
    write_metadata_log(root, second)
    with pytest.raises(BadInputError, match="keeps the last state of a batch"):
        build(root, out, "--append", "--intra-batch", run_id="r1")
    (root / "__cluster_metadata-0" / f"{0:020d}.log").unlink()
    start = next(
        b.base_offset for b in committed_batches(log.content)
        if position_of(log.content, b.base_offset) == len(second)
    )  # fmt: skip
    write_metadata_log(root, everything[len(second) :], start)
    (root / "__cluster_metadata-0" / f"{start:020d}-0000000001.checkpoint").write_bytes(b"")
    before = contents(out)
    with pytest.raises(DataLossError, match="are gone"):
        build(root, out, "--append", run_id="r2")
    assert contents(out) == before


@pytest.mark.long
def test_the_fold_of_single_batches_is_that_of_the_whole(log, whole, tmp_path):
    root = write_metadata_log(tmp_path / "in", log.content)
    # in this process: what is carried from chunk to chunk, in every bucket
    rows = fold_here(root, tmp_path, buckets=3, chunk_rows=1)
    assert rows["chunks"] > 50
    found = contents(tmp_path / "out")
    for name in ("partitions", "leader_changes", "under_replicated", "isr_churn"):
        assert found[name] == whole[name], name


@pytest.mark.spark
def test_as_of_reads_one_version(log, spark, tmp_path):
    root, out = tmp_path / "in", tmp_path / "out"
    first, everything = parts_of(log, 0.5)
    write_metadata_log(root, first)
    build(root, out, "--append", run_id="r0")
    frames = history_query.as_of(spark, str(out))
    write_metadata_log(root, everything)
    build(root, out, "--append", run_id="r1")
    end = history_query.counters(out / "_versions" / "r0")["end_offset"]
    assert frames["partitions"].where(f"valid_from_offset >= {end}").count() == 0
    assert history_query.counters(out)["end_offset"] > end
