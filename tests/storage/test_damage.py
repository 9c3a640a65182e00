"""Each damaged directory that real Kafka was started with: what this package says to it.

docs/formats/damage.md is the table of both reactions.
"""

import pytest

from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import QuorumStateFile
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.log import LogConfig
from storage.logs.recovery import FileRebuilt, SegmentsDropped, TailCut
from tests.storage import golden

END = 671
CASES = {case["case"]: case for case in golden.cases()}
CUT_AT_670 = [name for name in CASES if name.startswith("tail-cut")] + [
    "tail-zero-filled-replaces-batch",
    "crc-last-batch",
    "magic-1-last",
    "magic-3-last",
    "base-offset-jump-up",
    "base-offset-jump-down",
    "base-offset-below-segment",
    "length-negative-last",
]
CUT_BELOW = {
    "crc-mid-log": 96,
    "magic-9-mid": 96,
    "length-too-small-mid": 96,
    "length-too-big-mid": 96,
    "epoch-changed-outside-crc": 100,
    "mid-segment-missing": 182,
}
CUT_AT = {**dict.fromkeys(CUT_AT_670, 670), **CUT_BELOW}
UNDAMAGED = ["tail-zero-filled", "tail-garbage"]
REFUSED = ["partition-metadata-wrong"]


@pytest.mark.parametrize("name", CUT_AT)
def test_above_the_recorded_end_is_cut_and_reported(name: str) -> None:
    log = open_metadata_log(golden.bad(CASES[name]), "/log", LogConfig())
    assert log.end_offset == CUT_AT[name]
    assert log.recovery_report
    assert {type(event) for event in log.recovery_report} <= {TailCut, SegmentsDropped}


@pytest.mark.parametrize("name", CUT_AT)
def test_below_the_recorded_end_stops_with_file_position_reason(name: str) -> None:
    vfs = golden.bad(CASES[name])
    OffsetCheckpoint(vfs, "/log").record("__cluster_metadata", 0, END)
    before = {path: vfs.read(path) for path in _files(vfs)}
    with pytest.raises(CorruptLogError) as caught:
        open_metadata_log(vfs, "/log", LogConfig())
    assert caught.value.path.endswith(".log")
    assert caught.value.reason
    after = {path: vfs.read(path) for path in _files(vfs)}
    assert before == after or name == "mid-segment-missing"  # its orphan indexes go


@pytest.mark.parametrize("name", [n for n in CASES if n not in CUT_AT and n not in REFUSED])
@pytest.mark.parametrize("recorded", [0, END])
def test_all_other_cases_keep_the_whole_log(name: str, recorded: int) -> None:
    vfs = golden.bad(CASES[name])
    if recorded:
        OffsetCheckpoint(vfs, "/log").record("__cluster_metadata", 0, recorded)
    log = open_metadata_log(vfs, "/log", LogConfig())
    assert log.end_offset == END
    expected = {TailCut} if name in UNDAMAGED else set()
    if name == "epoch-checkpoint-garbled":
        expected = {FileRebuilt}
    assert {type(event) for event in log.recovery_report} == expected
    assert [(entry.epoch, entry.start_offset) for entry in log.epoch_entries][-1][0] == 7


def test_directory_of_another_topic_is_refused() -> None:
    vfs = golden.bad(CASES["partition-metadata-wrong"])
    with pytest.raises(CorruptFileError, match="belongs to topic id"):
        open_metadata_log(vfs, "/log", LogConfig())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quorum-state-empty", "Error while reading the Quorum status from the file"),
        ("quorum-state-broken-json", "Error while reading the Quorum status from the file"),
        ("quorum-state-not-json", "Error while reading the Quorum status from the file"),
        ("quorum-state-no-data-version", "does not have data_version"),
        (
            "quorum-state-data-version-7",
            r"data_version \(7\) is not within the min \(0\) and max \(1\) supported version",
        ),
        (
            "quorum-state-missing-field",
            "unable to locate field 'votedId', which is mandatory in version 0",
        ),
    ],
)
def test_quorum_state_refused(name: str, words: str) -> None:
    with pytest.raises(CorruptFileError, match=words):
        QuorumStateFile(golden.bad(CASES[name]), "/log/__cluster_metadata-0").read()


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in CASES
        if n.startswith("quorum-state")
        and n.rpartition("quorum-state-")[2]
        in {
            "unknown-field",
            "leader-self",
            "voted-self",
            "voted-other",
            "epoch-behind-log",
            "leader-unknown-voter",
            "tmp-left",
            "voters-differ",
            "other-cluster",
        }
    ],
)
def test_quorum_state_accepted(name: str) -> None:
    state = QuorumStateFile(golden.bad(CASES[name]), "/log/__cluster_metadata-0").read()
    assert state is not None
    assert state.epoch in (1, 7)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("meta-empty", "Error: node ID not found in"),
        ("meta-version-0", "Error: node ID not found in"),
        ("meta-no-cluster", r"cluster\.id was not found\."),
        ("meta-version-9", r"Unknown meta\.properties version number 9"),
        ("meta-bad-directory-id", r"Unable to read directory\.id"),
        ("meta-reserved-directory-id", "Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAQ"),
    ],
)
def test_meta_properties_refused(name: str, words: str) -> None:
    with pytest.raises(CorruptFileError, match=words):
        read_meta_properties(golden.bad(CASES[name]), "/log")


def test_meta_properties_accepted() -> None:
    assert read_meta_properties(golden.bad(CASES["meta-missing"]), "/log") is None
    found = read_meta_properties(golden.bad(CASES["meta-no-directory-id"]), "/log")
    assert found is not None
    assert found.directory_id is None
    assert read_meta_properties(golden.bad(CASES["meta-duplicate-key"]), "/log") is not None


def test_snapshot_names() -> None:
    odd = SnapshotFiles(golden.bad(CASES["snapshot-odd-name"]), "/log/__cluster_metadata-0")
    with pytest.raises(CorruptFileError, match="not a name of a snapshot"):
        odd.list()
    for name in ("snapshot-part-left", "snapshot-deleted-left"):
        files = SnapshotFiles(golden.bad(CASES[name]), "/log/__cluster_metadata-0")
        assert len(files.clean()) == 1
        assert files.clean() == ()


def _files(vfs: object) -> list[str]:
    names = vfs.list("/log/__cluster_metadata-0")  # type: ignore[attr-defined]
    return [f"/log/__cluster_metadata-0/{name}" for name in names if name.endswith(".log")]
