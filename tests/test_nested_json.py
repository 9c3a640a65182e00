"""JSON nested deeper than a reader goes is one clear refusal, wherever bytes come from outside.

Python's readers end it with RecursionError, which is no ValueError. How deep they go is theirs:
3.11 ends below 1,000 levels, 3.13 reads 2,000 and not 10,000. What they read is a list, and as such
refused where an object is wanted.
"""

import json
import re
from base64 import b64decode
from pathlib import Path

import msgspec
import pytest

from cli.admin.json_files import read_json
from cli.arguments import UsageError
from kernel.events import Now
from kernel.opening import open_storage
from network.clock import Clock
from pipeline.core.audit.check_directory import check_directory
from pipeline.core.audit.check_quorum_state import check_quorum_state
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import PartitionFiles
from pipeline.core.reading.options import parse_options
from pipeline.core.records.json_records import describe_other
from pipeline.jobs.history.query import counters
from simulator.campaign.draw import Options
from simulator.campaign.schedule import ScheduleError, read_schedule
from simulator.campaign.seed_ledger import LedgerError, SeedLedger
from storage.errors import CorruptFileError
from storage.log_dir.clean_shutdown_file import UNKNOWN_EPOCH, decode_clean_shutdown
from storage.log_dir.quorum_state_file import decode_quorum_state
from tests.kernel.harness import config_of
from tests.storage import golden

DEEP = b"[" * 100_000
DEEPS = pytest.mark.parametrize(
    "content",
    [DEEP, b'{"a":' * 100_000, b'{"a":' + b"[" * 100_000, b"[" * 2_000 + b"]" * 2_000],
    ids=["lists", "objects", "list-in-object", "whole"],
)
TOO_DEEP = "(maximum recursion depth|Stack overflow)"


def is_read(content: bytes) -> bool:
    """True if this Python's readers go as deep as the content."""
    try:
        return bool(msgspec.json.decode(content)) and bool(json.loads(content))
    except (ValueError, RecursionError):
        return False


def refusal(content: bytes) -> str:
    """Pattern of the refusal where an object is wanted."""
    return "not a JSON object" if is_read(content) else TOO_DEEP


def test_a_hundred_thousand_levels_are_too_deep_for_every_reader() -> None:
    for reader in (json.loads, msgspec.json.decode):
        with pytest.raises(RecursionError, match=TOO_DEEP):
            reader(DEEP)


@DEEPS
def test_a_clean_shutdown_file_proves_nothing(content: bytes) -> None:
    assert decode_clean_shutdown(content) == UNKNOWN_EPOCH


@DEEPS
def test_a_quorum_state_is_named(content: bytes) -> None:
    with pytest.raises(CorruptFileError, match=f"^/d/quorum-state: .*{refusal(content)}"):
        decode_quorum_state(content, "/d/quorum-state")


def test_a_field_of_any_depth_is_refused_without_showing_it() -> None:
    for depth in range(900, 1_000):
        deep = b"[" * depth + b"]" * depth
        content = (
            b'{"leaderId":' + deep + b',"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[],"data_version":0}'
        )
        with pytest.raises(CorruptFileError) as caught:
            decode_quorum_state(content, "f")
        assert re.search(f"cannot be list|{TOO_DEEP}", str(caught.value))


def test_a_controller_refuses_to_start_and_names_its_quorum_state() -> None:
    vfs = golden.load("single", "/data")
    file = vfs.open("/data/__cluster_metadata-0/quorum-state")
    file.truncate(0)
    file.pwrite(DEEP, 0)
    clock = Clock(Now(1_000, 1_000))
    with pytest.raises(
        CorruptFileError, match=f"^/data/__cluster_metadata-0/quorum-state: .*{TOO_DEEP}"
    ):
        open_storage(config_of(1, 1), vfs, None, clock, [], installed=lambda _: None)


@DEEPS
def test_a_schedule_is_named_with_its_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"schedule":1,"seed":4,"options":{"node_count":3}}\n' + content)
    with pytest.raises(ScheduleError, match=r"run\.jsonl:2: "):
        read_schedule(path)


@DEEPS
def test_a_line_of_a_ledger_does_not_count(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "done.jsonl"
    path.write_bytes(content + b"\n")
    with pytest.raises(LedgerError, match=r"done\.jsonl is no ledger of seeds"):
        SeedLedger(path, "commit", Options(), is_twice=False).known()


@DEEPS
def test_a_file_of_a_command_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"file.json: (not JSON: )?{refusal(content)}"):
        read_json(str(path))


def test_text_that_is_not_utf_8_is_no_json_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b'{"partitions":"\xff"}')
    with pytest.raises(UsageError, match=r"file\.json: not JSON: .*utf-8"):
        read_json(str(path))


@DEEPS
def test_a_value_of_a_topic_is_shown_as_bytes(content: bytes) -> None:
    """A value that can be read is JSON, and shown as it is."""
    (shown, *_) = describe_other(None, content)
    assert shown is not None
    if is_read(content):
        assert shown.encode() == content
    else:
        assert b64decode(msgspec.json.decode(shown, type=str)) == content


@pytest.mark.parametrize("option", ["paths", "startingOffsets", "endingOffsets", "assign"])
def test_an_option_of_a_source_is_named(option: str) -> None:
    with pytest.raises(BadInputError, match=f"^{option} is "):
        parse_options({"path": "p", option: DEEP.decode()})


@pytest.mark.parametrize("content", [b"[]", b"5", b"null", b'"brokerEpoch"'])
def test_a_clean_shutdown_file_without_an_object_is_a_finding(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    (found,) = [f for f in check_directory(str(tmp_path), []) if f.check.startswith("clean_shut")]
    assert (found.check, found.detail) == ("clean_shutdown_garbled", "not a JSON object")


@DEEPS
def test_an_audited_directory_has_a_finding(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    found = [one.check for one in check_directory(str(tmp_path), [])]
    assert "clean_shutdown_garbled" in found


@pytest.mark.parametrize("content", [DEEP, b"{", b"[]", b"{}", b'{"counters":5}', b"\xff"])
def test_a_run_of_a_history_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(BadInputError, match=r"run\.json"):
        counters(tmp_path)


@pytest.mark.parametrize("voters", ["5", '["x"]', '[{"id":1}]', '[{"voterId":"x"}]', '"text"'])
def test_voters_of_another_shape_are_a_finding(voters: str, tmp_path: Path) -> None:
    """The node does not read them; who audits it says so, and goes on."""
    (tmp_path / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        f'"currentVoters":{voters},"data_version":0}}'
    )
    copy = PartitionFiles(directory=str(tmp_path), topic="__cluster_metadata", partition=0)
    found = [one.check for one in check_quorum_state(copy, (), None)]
    assert found == ["quorum_state_garbled"]
