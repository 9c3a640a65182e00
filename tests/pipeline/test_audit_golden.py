"""The audit on what real Kafka wrote, and on the damaged copies that it was started with."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline.core.audit.audit import check_file_fully, judge_partition, plan_audit
from pipeline.core.audit.findings import Finding

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
STORAGE = GOLDEN / "storage"
LAST = "00000000000000000619.log"
FIRST = "00000000000000000000.log"
SNAPSHOT = "00000000000000000607-0000000006.checkpoint"
# case -> (file, position, check): found there; other findings may follow
EXPECTED = {
    **{f"tail-cut-{n:02d}": (LAST, 2726, "partial_tail") for n in range(10)},
    "tail-zero-filled": (LAST, 2832, "zero_tail"),
    "tail-zero-filled-replaces-batch": (LAST, 2726, "zero_tail"),
    "tail-garbage": (LAST, 2832, "bad_magic"),
    "crc-last-batch": (LAST, 2726, "bad_crc"),
    "crc-mid-log": (FIRST, 9197, "bad_crc"),
    "epoch-changed-outside-crc": (FIRST, 9197, "epoch_decreases"),
    "magic-3-last": (LAST, 2726, "bad_magic"),
    "magic-1-last": (LAST, 2726, "old_magic"),
    "magic-9-mid": (FIRST, 9197, "bad_magic"),
    "base-offset-jump-up": (LAST, 2726, "offset_gap"),
    "base-offset-jump-down": (LAST, 2726, "offset_not_monotone"),
    "base-offset-below-segment": (LAST, 2726, "base_before_segment"),
    "length-too-small-mid": (FIRST, 9197, "bad_length"),
    "length-too-big-mid": (FIRST, 9197, "bad_length"),
    "length-negative-last": (LAST, 2726, "bad_length"),
    "index-wrong-position": ("00000000000000000000.index", 0, "index_beyond_end"),
    "index-decreasing": ("00000000000000000000.index", 8, "index_not_increasing"),
    "index-too-long": ("00000000000000000000.index", 24, "index_not_increasing"),
    "index-misaligned": ("00000000000000000000.index", 24, "index_size"),
    "index-missing": ("00000000000000000000.index", 0, "index_missing"),
    "index-empty": ("00000000000000000000.index", 0, "index_empty"),
    "timeindex-missing": ("00000000000000000000.timeindex", 0, "timeindex_missing"),
    "timeindex-misaligned": ("00000000000000000000.timeindex", 48, "timeindex_size"),
    "indexes-missing-all": ("00000000000000000182.index", 0, "index_missing"),
    **{
        f"quorum-state-{what}": ("quorum-state", 0, "quorum_state_garbled")
        for what in ("empty", "broken-json", "not-json", "no-data-version", "data-version-7",
                     "missing-field")
    },
    "quorum-state-missing": ("quorum-state", 0, "quorum_state_missing"),
    "quorum-state-unknown-field": ("quorum-state", 0, "quorum_state_unknown_field"),
    "quorum-state-epoch-behind-log": ("quorum-state", 0, "quorum_state_behind_log"),
    "quorum-state-leader-unknown-voter": ("quorum-state", 0, "quorum_state_leader"),
    "quorum-state-tmp-left": ("quorum-state.tmp", 0, "left_over"),
    "quorum-state-voters-differ": ("quorum-state", 0, "quorum_state_voters"),
    "quorum-state-other-cluster": ("quorum-state", 0, "quorum_state_cluster"),
    "meta-missing": ("meta.properties", 0, "meta_properties_missing"),
    **{
        f"meta-{what}": ("meta.properties", 0, "meta_properties_garbled")
        for what in ("empty", "no-cluster", "version-0", "version-9", "bad-directory-id",
                     "reserved-directory-id")
    },
    "meta-no-directory-id": ("meta.properties", 0, "meta_properties_directory_id"),
    "meta-duplicate-key": ("meta.properties", 122, "meta_properties_duplicate"),
    "snapshot-no-footer": (SNAPSHOT, 7182, "snapshot_no_footer"),
    "snapshot-truncated-footer": (SNAPSHOT, 7182, "snapshot_no_footer"),
    "snapshot-truncated-mid": (SNAPSHOT, 83, "snapshot_no_footer"),
    "snapshot-bitflip": (SNAPSHOT, 83, "bad_crc"),
    "snapshot-empty": (SNAPSHOT, 0, "snapshot_empty"),
    "snapshot-no-header": (SNAPSHOT, 0, "snapshot_no_header"),
    "snapshot-part-left": ("00000000000000009999-0000000009.checkpoint.part", 0, "left_over"),
    "snapshot-deleted-left": ("00000000000000000001-0000000001.checkpoint.deleted", 0, "left_over"),
    "snapshot-ahead-of-log": (
        "00000000000000099999-0000000009.checkpoint", 0, "snapshot_ahead_of_log",
    ),
    "snapshot-odd-name": ("foo.checkpoint", 0, "unknown_file"),
    "log-start-gap": ("00000000000000000182.log", 0, "log_start_gap"),
    "log-start-gap-no-snapshot": ("00000000000000000182.log", 0, "snapshot_missing"),
    "mid-segment-missing": ("00000000000000000407.log", 0, "segment_gap"),
    "partition-metadata-missing": ("partition.metadata", 0, "partition_metadata_missing"),
    "partition-metadata-wrong": ("partition.metadata", 0, "topic_id_differs"),
    "epoch-checkpoint-missing": ("leader-epoch-checkpoint", 0, "epoch_checkpoint_missing"),
    "epoch-checkpoint-garbled": ("leader-epoch-checkpoint", 0, "epoch_checkpoint_garbled"),
}  # fmt: skip
# legal states, or what one directory alone can not show (see the two tests of several nodes)
SOUND = {
    "good", "quorum-state-leader-self", "quorum-state-voted-self", "quorum-state-voted-other",
    "meta-wrong-node", "meta-other-cluster", "snapshots-all-missing", "bootstrap-missing",
}  # fmt: skip
# the same damage in the log of a single controller
SINGLE = {
    "tail-cut-07-header-only": (FIRST, 4748, "partial_tail"),
    "crc-last-batch": (FIRST, 4748, "bad_crc"),
    "crc-mid-log": (FIRST, 2031, "bad_crc"),
    "epoch-changed-outside-crc": (FIRST, 2031, "epoch_decreases"),
    "base-offset-jump-up": (FIRST, 4748, "offset_gap"),
    "snapshot-no-footer": (None, 2151, "snapshot_no_footer"),
    "snapshot-truncated-footer": (None, 2151, "snapshot_no_footer"),
    "snapshot-truncated-mid": (None, 166, "snapshot_no_footer"),
    "snapshot-bitflip": (None, 166, "bad_crc"),
}
DATA = {
    "rd-none-0": (FIRST, 985, "partial_tail", "info"),
    "rd-gzip-0": (FIRST, 881, "zero_tail", "warn"),
    "rd-snappy-0": (FIRST, 673, "bad_crc", "error"),
    "rd-lz4-0": (FIRST, 0, "bad_crc", "error"),
    "rd-zstd-0": (FIRST, 576, "bad_magic", "error"),
    "java-lz4-0": (FIRST, 0, "offset_gap", "warn"),
    "java-gzip-0": ("00000000000000000000.index", 0, "index_missing", "info"),
    "java-snappy-0": ("00000000000000000000.timeindex", 0, "timeindex_missing", "info"),
    "aio-none-0": ("00000000000000000000.index", 0, "index_size", "error"),
    "java-perf-0": (FIRST, 0, "bad_crc", "error"),
    "idem-0": ("00000000000000000000.index", 0, "index_beyond_end", "error"),
    "txn-0": ("00000000000000000085.snapshot", 2, "producer_snapshot_crc", "error"),
    "comp-0": ("00000000000000000084.txnindex", 0, "txnindex_size", "error"),
    "startoff-0": ("partition.metadata", 0, "partition_metadata_missing", "error"),
}
REMOVED = {
    "java-gzip-0": "00000000000000000000.index",
    "java-snappy-0": "00000000000000000000.timeindex",
    "startoff-0": "partition.metadata",
}
BASES = (STORAGE / "bad-data" / "base", STORAGE / "data", GOLDEN / "cli" / "data-log")


def audited(*roots: Path) -> list[Finding]:
    plan = plan_audit([str(root) for root in roots], full=True)
    findings = list(plan.findings)
    for key, copies in plan.copies.items():
        reports = [check_file_fully(task) for task in plan.tasks if task.key == key]
        findings += judge_partition(copies, reports).findings
    return findings


def copied(base: Path, target: Path, overlay: Path | None = None) -> Path:
    shutil.copytree(base, target)
    if overlay is not None and overlay.is_dir():
        shutil.copytree(overlay, target, dirs_exist_ok=True)
    return target


def cases(folder: str) -> dict[str, list[str]]:
    listed = json.loads((STORAGE / folder / "cases.json").read_text())
    return {case["case"]: case["removed"] for case in listed}


def expected_of(name: str) -> tuple[str, int, str]:
    return EXPECTED.get(name) or EXPECTED[name[: len("tail-cut-00")]]


def places(findings: list[Finding]) -> set[tuple[str, int, str]]:
    return {(Path(one.path).name, one.position, one.check) for one in findings}


@pytest.mark.parametrize("name", sorted(set(cases("bad")) - SOUND))
def test_each_damaged_metadata_log_is_found_at_its_position(name: str, tmp_path: Path) -> None:
    root = copied(STORAGE / "static", tmp_path / "log", STORAGE / "bad" / name)
    for path in cases("bad")[name]:
        (root / path).unlink()
    findings = audited(root)
    assert expected_of(name) in places(findings)
    assert all(Path(one.path).parent.exists() and one.severity for one in findings)


@pytest.mark.parametrize("name", sorted(SOUND))
def test_what_is_legal_gives_no_finding(name: str, tmp_path: Path) -> None:
    root = copied(STORAGE / "static", tmp_path / "log", STORAGE / "bad" / name)
    for path in cases("bad")[name]:
        (root / path).unlink()
    assert audited(root) == []


@pytest.mark.parametrize("name", sorted(cases("bad-single")))
def test_each_damaged_single_controller_is_found(name: str, tmp_path: Path) -> None:
    root = copied(STORAGE / "single", tmp_path / "log", STORAGE / "bad-single" / name)
    for path in cases("bad-single")[name]:
        (root / path).unlink()
    found = places(audited(root))
    if name in SOUND:
        assert not found
        return
    path, position, check = SINGLE.get(name) or (None, *expected_of(name)[1:])
    assert any(place[1:] == (position, check) and path in (None, place[0]) for place in found)


@pytest.mark.parametrize("partition", sorted(DATA))
def test_each_damaged_partition_of_a_broker_is_found(partition: str, tmp_path: Path) -> None:
    base = next(folder for folder in BASES if (folder / partition).is_dir())
    damaged = STORAGE / "bad-data" / "files" / partition
    root = copied(base / partition, tmp_path / partition, damaged)
    if partition in REMOVED:
        (root / REMOVED[partition]).unlink()
    name, position, check, severity = DATA[partition]
    found = [one for one in audited(root) if Path(one.path).name == name]
    assert (name, position, check) in places(found)
    assert severity in {one.severity for one in found}


@pytest.mark.parametrize(
    "name", ["recovery-point-garbled", "recovery-point-version-9", "replication-offset-garbled"]
)
def test_damaged_checkpoints_of_a_log_directory(name: str, tmp_path: Path) -> None:
    root = copied(STORAGE / "data", tmp_path / "log", STORAGE / "bad-data" / "files" / name)
    garbled = [one for one in audited(root) if one.check == "checkpoint_garbled"]
    assert [Path(one.path).name for one in garbled] == [next(
        path.name for path in (STORAGE / "bad-data" / "files" / name).iterdir()
    )]  # fmt: skip


def test_an_epoch_checkpoint_of_a_partition_is_garbled_or_missing(tmp_path: Path) -> None:
    damaged = STORAGE / "bad-data" / "files" / "epoch-checkpoint-garbled"
    root = copied(STORAGE / "data", tmp_path / "log", damaged)
    name = "leader-epoch-checkpoint"
    assert (name, 0, "epoch_checkpoint_garbled") in places(audited(root))
    (root / "epochs-0" / name).unlink()
    assert (name, 0, "epoch_checkpoint_missing") in places(audited(root))


def test_the_clean_shutdown_file(tmp_path: Path) -> None:
    root = copied(STORAGE / "data", tmp_path / "log")
    before = audited(root)
    (root / ".kafka_cleanshutdown").write_bytes(b"")
    assert audited(root) == before
    (root / ".kafka_cleanshutdown").write_bytes(b"{")
    assert places(audited(root)) - places(before) == {
        (".kafka_cleanshutdown", 0, "clean_shutdown_garbled")
    }


def test_the_mark_of_a_voter_that_may_have_lost_a_disk(tmp_path: Path) -> None:
    root = copied(STORAGE / "static", tmp_path / "log")
    before = audited(root)
    (root / ".unproven").write_bytes(b"")
    (found,) = [one for one in audited(root) if one not in before]
    assert (found.severity, found.check, found.path) == (
        "info", "voter_unproven", str(root / ".unproven")
    )  # fmt: skip


@pytest.mark.parametrize("name", ["meta-missing", "snapshot-odd-name"])
def test_what_a_node_does_not_start_with_is_an_error(name: str, tmp_path: Path) -> None:
    """Kafka exits with 1."""
    root = copied(STORAGE / "static", tmp_path / "log", STORAGE / "bad" / name)
    for path in cases("bad")[name]:
        (root / path).unlink()
    found = [one for one in audited(root) if one.check == expected_of(name)[2]]
    assert [one.severity for one in found] == ["error"]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("foo.checkpoint", "error"), ("00000000000000000001-000000001x.checkpoint", "error"),
        ("0000000000000000000x-0000000001.checkpoint", "error"),
        ("00000000000000000001-0000000001-old.checkpoint", "info"), ("foo", "info"),
    ],
)  # fmt: skip
def test_names_beside_the_snapshots_that_kafka_does_not_read(
    name: str, severity: str, tmp_path: Path
) -> None:
    root = copied(STORAGE / "static", tmp_path / "log")
    (root / "__cluster_metadata-0" / name).write_bytes(b"")
    (found,) = [one for one in audited(root) if one.check == "unknown_file"]
    assert found.severity == severity
    data = copied(GOLDEN / "cli" / "data-log" / "append-time-0", tmp_path / "append-time-0")
    (data / name).write_bytes(b"")
    (found,) = [one for one in audited(data) if one.check == "unknown_file"]
    assert found.severity == "info"


def test_zeros_at_the_end_are_cut_by_recovery_which_a_clean_shutdown_spares(tmp_path: Path) -> None:
    """A broker that shut down cleanly reads them and exits; a metadata log is always recovered."""
    data = tmp_path / "data"
    copied(GOLDEN / "cli" / "data-log" / "append-time-0", data / "append-time-0")
    metadata = copied(STORAGE / "static", tmp_path / "static")
    for path, root in ((data / "append-time-0" / FIRST, data), (
        metadata / "__cluster_metadata-0" / LAST, metadata,
    )):  # fmt: skip
        with path.open("ab") as file:
            file.write(bytes(300))
        (found,) = [one for one in audited(root) if one.check == "zero_tail"]
        assert (found.severity, found.length) == ("warn", 300)
        (root / ".kafka_cleanshutdown").write_bytes(b"")
        (found,) = [one for one in audited(root) if one.check == "zero_tail"]
        assert found.severity == ("error" if root == data else "warn")


def test_a_partition_without_its_topic_id_is_an_error_beside_the_metadata_log(
    tmp_path: Path,
) -> None:
    """A broker renames it -stray; the metadata log's id is known."""
    root = copied(STORAGE / "static", tmp_path / "log")
    (root / "__cluster_metadata-0" / "partition.metadata").unlink(missing_ok=True)
    (found,) = [one for one in audited(root) if one.check == "partition_metadata_missing"]
    assert found.severity == "warn"


def test_a_line_names_topic_and_partition_also_of_a_file_above_them(tmp_path: Path) -> None:
    root = tmp_path / "data"
    copied(GOLDEN / "cli" / "data-log" / "append-time-0", root / "append-time-0")
    (root / "replication-offset-checkpoint").write_text("0\n1\nappend-time 0 999999\n")
    (found,) = [one for one in audited(root) if one.check == "checkpoint_beyond_end"]
    assert " checkpoint_beyond_end append-time-0 offset 999999: " in found.line()


@pytest.mark.parametrize("scenario", ["kraft-upgrade", "single", "static"])
def test_sound_metadata_logs_have_no_findings(scenario: str) -> None:
    """The indexes of the active segment of kraft-upgrade were not copied."""
    found = {(one.severity, one.check) for one in audited(STORAGE / scenario)}
    assert found <= {("info", "index_missing"), ("info", "timeindex_missing")}
    assert not found or scenario == "kraft-upgrade"


def test_sound_partitions_have_no_findings_beyond_what_was_not_copied() -> None:
    """The folders hold some partitions of a log directory, whose checkpoints name all of them."""
    for root in (GOLDEN / "cli" / "data-log", STORAGE / "data"):
        found = audited(root)
        assert [one for one in found if one.check != "meta_properties_missing"] == []


def test_replicas_of_one_topic_name_with_different_topic_ids(tmp_path: Path) -> None:
    """partition.metadata names another topic id: seen as soon as there is a second replica."""
    source = GOLDEN / "cli" / "data-log" / "append-time-0"
    damaged = STORAGE / "bad-data" / "files" / "append-time-0"
    copied(source, tmp_path / "one" / "append-time-0")
    copied(source, tmp_path / "two" / "append-time-0", damaged)
    found = places(audited(tmp_path))
    assert ("partition.metadata", 0, "topic_id_differs") in found


def test_a_directory_with_the_node_id_of_another_node(tmp_path: Path) -> None:
    copied(STORAGE / "static", tmp_path / "n1", STORAGE / "bad" / "meta-wrong-node")
    copied(STORAGE / "static", tmp_path / "n2")
    properties = tmp_path / "n2" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    assert ("meta.properties", 0, "node_twice") in places(audited(tmp_path))
