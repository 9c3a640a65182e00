"""The audit: nothing on sound logs, every damage at its position; replicas; the job."""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.core.audit.audit import check_file_fully, plan_audit
from pipeline.core.audit.findings import Finding
from tests.pipeline.generated_logs import (
    Placed,
    Written,
    epoch_starts,
    random_batches,
    with_epoch,
    write_replica,
)
from tests.pipeline.segments import batch
from tests.pipeline.test_audit_golden import audited

SEEDS = range(12)


def overwrite(path: Path, position: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(content)] = content
    path.write_bytes(data)


def at(findings: list[Finding], path: Path, position: int) -> set[str]:
    found = {one.check for one in findings if (one.path, one.position) == (str(path), position)}
    assert found, [one.line() for one in findings]
    return found


def sound_log(root: Path, seed: int, segments: int = 3) -> tuple[random.Random, list[Written]]:
    rng = random.Random(seed)
    batches = random_batches(rng, rng.randrange(4, 25))
    written = write_replica(root, batches, rng, segments=segments, committed=batches[-1].last + 1)
    return rng, written


def check_sound(root: Path, seeds: range) -> None:
    for seed in seeds:
        folder = root / str(seed)
        sound_log(folder, seed, segments=1 + seed % 4)
        assert [one.line() for one in audited(folder)] == [], seed
        shutil.rmtree(folder)


def test_sound_logs_have_no_finding(tmp_path: Path) -> None:
    check_sound(tmp_path, range(40))


@pytest.mark.long
def test_ten_thousand_sound_logs_have_no_finding(tmp_path: Path) -> None:
    check_sound(tmp_path, range(40, 10_200))


def flip_a_bit(rng: random.Random, one: Written) -> set[str]:
    """Anywhere under the checksum."""
    where = one.position + rng.randrange(17, len(one.batch.content))
    overwrite(one.path, where, bytes([one.path.read_bytes()[where] ^ 1 << rng.randrange(8)]))
    return {"bad_crc"}


def spoil_magic(rng: random.Random, one: Written) -> set[str]:
    overwrite(one.path, one.position + 16, bytes([rng.choice((0, 1, 3, 200))]))
    return {"bad_magic", "old_magic"}


def spoil_length(rng: random.Random, one: Written) -> set[str]:
    length = rng.choice((-1, 0, 48, len(one.batch.content) - 13, 1 << 30))
    overwrite(one.path, one.position + 8, struct.pack(">i", length))
    return {"bad_length", "bad_crc", "partial_tail"}


def zero_a_range(rng: random.Random, one: Written) -> set[str]:
    length = rng.randrange(17, len(one.batch.content) + 1)
    overwrite(one.path, one.position, bytes(length))
    return {"old_magic", "zero_tail"}


def lower_offset(rng: random.Random, one: Written) -> set[str]:
    base = one.batch.base - rng.randrange(1, 5)
    overwrite(one.path, one.position, struct.pack(">q", base))
    return {"offset_not_monotone", "base_before_segment"}


def higher_offset(rng: random.Random, one: Written) -> set[str]:
    base = one.batch.base + rng.randrange(1, 50)
    overwrite(one.path, one.position, struct.pack(">q", base))
    return {"offset_gap"}


def other_epoch(rng: random.Random, one: Written) -> set[str]:
    epoch = rng.choice((one.batch.epoch + 1000, one.batch.epoch + 7, 0))
    epoch = epoch if epoch != one.batch.epoch else epoch + 500
    overwrite(one.path, one.position + 12, struct.pack(">i", epoch))
    return {"epoch_checkpoint_mismatch", "epoch_checkpoint_behind", "epoch_decreases"}


MUTATIONS: list[Callable[[random.Random, Written], set[str]]] = [
    flip_a_bit, spoil_magic, spoil_length, zero_a_range, lower_offset, higher_offset, other_epoch,
]  # fmt: skip


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda one: one.__name__)
def test_a_damaged_batch_is_found_at_its_position(
    mutate: Callable[[random.Random, Written], set[str]], tmp_path: Path
) -> None:
    for seed in SEEDS:
        rng, written = sound_log(tmp_path / str(seed), seed)
        one = rng.choice(written)
        expected = mutate(rng, one)
        assert at(audited(tmp_path / str(seed)), one.path, one.position) & expected, seed


def test_truncation_is_found_where_the_cut_batch_begins(tmp_path: Path) -> None:
    for seed in SEEDS:
        rng, written = sound_log(tmp_path / str(seed), seed)
        one = rng.choice(written)
        os.truncate(one.path, one.position + rng.randrange(1, len(one.batch.content)))
        findings = audited(tmp_path / str(seed))
        assert at(findings, one.path, one.position) & {"partial_tail", "short_header"}
        assert one.path == written[-1].path or any(x.severity == "error" for x in findings)


def test_truncation_between_batches_shows_in_what_stands_beside(tmp_path: Path) -> None:
    """No byte of the segment is wrong then."""
    for seed in SEEDS:
        _, written = sound_log(tmp_path / str(seed), seed, segments=2)
        last = written[-1]
        os.truncate(last.path, last.position)
        checks = {one.check for one in audited(tmp_path / str(seed)) if one.severity == "error"}
        assert "checkpoint_beyond_end" in checks, seed


def test_swapped_batches_are_found(tmp_path: Path) -> None:
    for seed in SEEDS:
        _, written = sound_log(tmp_path / str(seed), seed, segments=2)
        first, second = written[0], written[1]
        if first.path != second.path:
            continue
        overwrite(first.path, 0, second.batch.content + first.batch.content)
        findings = audited(tmp_path / str(seed))
        assert "offset_gap" in at(findings, first.path, 0)
        moved = len(second.batch.content)
        assert "offset_not_monotone" in at(findings, first.path, moved)


def test_wrong_index_entries_are_found_at_the_entry(tmp_path: Path) -> None:
    found = 0
    for seed in range(40):
        rng, written = sound_log(tmp_path / str(seed), seed)
        path = rng.choice(sorted({one.path for one in written}))
        for suffix, size, field, checks in (
            (".index", 8, (4, 8), {"index_position", "index_beyond_end", "index_not_increasing"}),
            (".index", 8, (0, 4), {"index_offset", "index_not_increasing"}),
            (".timeindex", 12, (0, 8), {"timeindex_mismatch", "timeindex_not_increasing"}),
        ):
            index = path.with_suffix(suffix)
            content = index.read_bytes()
            used = len(content.rstrip(b"\0")) // size
            if used == 0:
                continue
            slot = rng.randrange(used) * size
            start, end = slot + field[0], slot + field[1]
            value = int.from_bytes(content[start:end], "big") + 1_000_000 + rng.randrange(1000)
            overwrite(index, start, value.to_bytes(end - start, "big"))
            assert at(audited(tmp_path / str(seed)), index, slot) & checks, (seed, suffix)
            index.write_bytes(content)
            found += 1
    assert found > 40


def test_transaction_index_and_producer_snapshot(tmp_path: Path) -> None:
    found = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        sound_log(folder, seed)
        (snapshot,) = folder.rglob("*.snapshot")
        overwrite(snapshot, 6, b"\x7f")
        assert at(audited(folder), snapshot, 2) == {"producer_snapshot_crc"}
        overwrite(snapshot, 6, b"\0")
        for index in folder.rglob("*.txnindex"):
            content = index.read_bytes()
            overwrite(index, 18, struct.pack(">q", 10**6))
            assert at(audited(folder), index, 0) == {"txnindex_marker"}
            index.unlink()
            checks = {one.check for one in audited(folder)}
            assert checks == {"txnindex_missing_entry"}
            index.write_bytes(content)
            found += 1
    assert found > 5


def replicas(root: Path, seed: int) -> tuple[random.Random, list[Placed]]:
    rng = random.Random(seed)
    return rng, random_batches(rng, rng.randrange(6, 20))


def test_equal_replicas_with_other_segments_agree(tmp_path: Path) -> None:
    for seed in SEEDS:
        rng, batches = replicas(tmp_path, seed)
        for node in range(3):
            behind = batches[: len(batches) - node]
            write_replica(tmp_path / f"{seed}-{node}", behind, rng, committed=behind[-1].last + 1)
        roots = [tmp_path / f"{seed}-{node}" for node in range(3)]
        assert [one.line() for one in audited(*roots)] == []


@pytest.mark.parametrize("kind", ["crc_diff", "epoch_diff", "boundary_diff", "missing"])
def test_replicas_that_differ_below_the_high_watermark(kind: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        rng, batches = replicas(tmp_path, seed)
        index = rng.randrange(1, len(batches) - 1)
        other = list(batches)
        victim = batches[index]
        size = victim.last - victim.base + 1
        if kind == "crc_diff":
            content = batch(victim.base, [b"other"] * size, epoch=victim.epoch)
            other[index] = victim._replace(content=content, aborted=None)
        elif kind == "epoch_diff":
            content = with_epoch(victim.content, victim.epoch + 100)
            other[index] = victim._replace(content=content, epoch=victim.epoch + 100)
        elif kind == "boundary_diff":
            after = batches[index + 1]
            content = batch(victim.base, [b"x"] * (after.last - victim.base + 1),
                            epoch=victim.epoch)  # fmt: skip
            other[index : index + 2] = [Placed(content, victim.base, after.last, victim.epoch)]
        else:
            del other[index]
        end = batches[-1].last + 1
        epochs = epoch_starts(batches)
        write_replica(tmp_path / f"{seed}-1", batches, rng, committed=end)
        written = write_replica(tmp_path / f"{seed}-2", other, rng, committed=end, epochs=epochs)
        findings = audited(tmp_path / f"{seed}-1", tmp_path / f"{seed}-2")
        errors = [one for one in findings if one.check == f"replica_{kind}"]
        assert errors, (seed, [one.line() for one in findings])
        assert (errors[0].severity, errors[0].offset) == ("error", victim.base)
        if kind in ("crc_diff", "epoch_diff"):
            assert (errors[0].path, errors[0].position) == (
                str(written[index].path), written[index].position,
            )  # fmt: skip


def test_a_tail_above_the_high_watermark_may_differ(tmp_path: Path) -> None:
    rng, batches = replicas(tmp_path, 1)
    end, epoch = batches[-1].last + 1, batches[-1].epoch
    for node, value in enumerate((b"one", b"two")):
        tail = Placed(batch(end, [value], epoch=epoch), end, end, epoch)
        write_replica(tmp_path / f"n{node}", [*batches, tail], rng, committed=end)
    findings = [one for one in audited(tmp_path) if one.severity != "info"]
    assert [one.line() for one in findings] == []
    assert {one.check for one in audited(tmp_path)} & {"divergent_tail"}


def test_the_job_writes_tables_and_says_how_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, written = sound_log(tmp_path / "in", 3)
    command = ["audit", "--input", str(tmp_path / "in"), "--json", "--overwrite"]
    out = tmp_path / "out"
    assert main([*command, "--output", str(out)]) == 0
    flip_a_bit(rng, written[0])
    assert main([*command, "--output", str(out)]) == 1
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["counters"]["errors"] == result["findings"] >= 1
    row = pq.read_table(out / "findings.parquet").to_pylist()[0]
    assert (row["check"], row["path"]) == ("bad_crc", str(written[0].path))
    assert row["run_id"]
    segments = pq.read_table(out / "segments.parquet").to_pylist()
    assert {one["state"] for one in segments} == {"ok", "error"}
    lines = (out / "findings.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["position"] == written[0].position


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "/no/such"], "/no/such: no such file or directory"),
        (["--input", "."], "no segments"),
        (["--input", ".", "--inspect", "ftp://x"], "'ftp://x' is no address"),
        (["--input", ".", "--inspect", "http://127.0.0.1:1"], "no answer"),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_vanishes_is_told_and_one_that_can_not_be_read_is_an_error(
    tmp_path: Path,
) -> None:
    sound_log(tmp_path, 2)
    plan = plan_audit([str(tmp_path)])
    first = plan.tasks[0]
    Path(first.file.path).unlink()
    (finding,) = check_file_fully(first).findings
    assert (finding.severity, finding.check) == ("info", "vanished")
    Path(first.file.path).mkdir()
    (finding,) = check_file_fully(first).findings
    assert (finding.severity, finding.check, finding.detail) == (
        "error", "unreadable", "not a regular file",
    )  # fmt: skip


def test_a_segment_that_retention_renamed_is_read_to_its_end(tmp_path: Path) -> None:
    sound_log(tmp_path, 2)
    plan = plan_audit([str(tmp_path)])
    path = Path(plan.tasks[0].file.path)
    path.rename(path.with_name(path.name + ".deleted"))
    report = check_file_fully(plan.tasks[0])
    assert report.findings == []
    assert len(report.digest)


def test_compacted_replicas_are_compared_by_their_records(tmp_path: Path) -> None:
    rng = random.Random(5)
    keep = [Placed(batch(n, [b"v%d" % n]), n, n, 1) for n in range(8)]
    for name, removed in (("one", {2, 3}), ("two", {3, 5})):
        left = [one for one in keep if one.base not in removed]
        write_replica(tmp_path / name, left, rng, segments=1, committed=8)
        (tmp_path / name / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 8\n")
    assert {(one.severity, one.check) for one in audited(tmp_path)} == {("info", "cleaned_differs")}
    left[3] = left[3]._replace(content=batch(left[3].base, [b"another"]))  # both have offset 4
    for path in (tmp_path / "two" / "orders-0").iterdir():
        path.unlink()
    (tmp_path / "two" / "orders-0").rmdir()
    written = write_replica(tmp_path / "two", left, rng, segments=1, committed=8)
    found = [one for one in audited(tmp_path) if one.check == "record_differs"]
    assert [(one.offset, one.path, one.position) for one in found] == [
        (4, str(written[3].path), written[3].position)
    ]


def test_metadata_logs_that_break_the_raft_property(tmp_path: Path) -> None:
    """The same epoch at the same offset, and other bytes before it: no high watermark is needed."""
    rng = random.Random(7)
    log = [Placed(batch(n, [b"v%d" % n], epoch=3), n, n, 3) for n in range(6)]
    other = list(log)
    other[2] = other[2]._replace(content=batch(2, [b"other"], epoch=3))
    for name, batches in (("n1", log), ("n2", other)):
        written = write_replica(tmp_path / name, batches, rng, segments=1)
        (tmp_path / name / "orders-0").rename(tmp_path / name / "__cluster_metadata-0")
    found = [one for one in audited(tmp_path) if one.check == "log_matching"]
    assert [(one.severity, one.offset, one.position) for one in found] == [
        ("error", 2, written[2].position)
    ]


def test_an_epoch_checkpoint_that_was_not_written_yet_is_no_damage(tmp_path: Path) -> None:
    """A node that is killed may leave one without the newest epochs; it completes it itself."""
    log = [Placed(batch(n, epoch=n // 3), n, n, n // 3) for n in range(9)]
    for name, epochs in (("late", [(0, 0), (1, 3)]), ("wrong", [(0, 0), (2, 6)])):
        written = write_replica(tmp_path / name, log, random.Random(1), segments=1, epochs=epochs)
        at_epoch = written[6 if name == "late" else 3]
        (found,) = audited(tmp_path / name)
        assert (found.path, found.position) == (str(at_epoch.path), at_epoch.position)
        assert (found.severity, found.check) == (
            ("warn", "epoch_checkpoint_behind")
            if name == "late"
            else ("error", "epoch_checkpoint_mismatch")
        )
