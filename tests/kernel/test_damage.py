"""The storage of a controller alone, opened with each damaged folder of the golden set.

docs/formats/damage.md has both reactions in one table. The metadata are of a level that this
controller does not lead, so no election follows; the log is applied to its end. Each case is opened
twice: as Kafka left it (nothing recorded), and with the flushed end recorded as this software does.
"""

import json
from typing import Any

import pytest

from kernel.effects import Effect, Log
from kernel.events import Now
from kernel.opening import OpenedStorage, open_storage
from metadata.loader import committed_batches
from network.clock import Clock
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import CorruptFileError, CorruptLogError
from tests.kernel.harness import config_of
from tests.storage import golden

END = 67
FOLDER = "bad-single"
CASES: list[dict[str, Any]] = json.loads((golden.ROOT / FOLDER / "cases.json").read_text())
LOG_DAMAGE = {
    "tail-cut-07-header-only": 66,
    "crc-last-batch": 66,
    "crc-mid-log": 45,  # cut below the newest snapshot: the log begins anew at its end
    "epoch-changed-outside-crc": 45,
    "base-offset-jump-up": 66,
}
REFUSED = {
    "quorum-state-empty": "Error while reading the Quorum status from the file",
    "snapshot-no-footer": "does not end with its footer",
    "snapshot-truncated-footer": "snapshot is cut",
    "snapshot-truncated-mid": "snapshot is cut",
    "snapshot-bitflip": "fails its checksum",
    "snapshot-empty": "does not begin with its header",
    "snapshot-no-header": "does not begin with its header",
    "snapshot-odd-name": "not a name of a snapshot",
}


def opened(case: dict[str, Any], *, recorded: bool) -> tuple[OpenedStorage, list[Effect]]:
    vfs = golden.load("single", "/data")
    if (golden.ROOT / FOLDER / case["case"]).is_dir():
        golden.overlay(vfs, f"{FOLDER}/{case['case']}", "/data")
    for name in case["removed"]:
        vfs.unlink(f"/data/{name}")
    if recorded:
        OffsetCheckpoint(vfs, "/data").record("__cluster_metadata", 0, END)
    effects: list[Effect] = []
    storage = open_storage(
        config_of(1, 1), vfs, None, Clock(Now(1_000, 1_000)), effects, installed=lambda _: None
    )
    return storage, effects


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_started_with(case: dict[str, Any], *, recorded: bool) -> None:
    name = case["case"]
    if name in REFUSED:
        with pytest.raises(CorruptFileError, match=REFUSED[name]):
            opened(case, recorded=recorded)
        return
    if recorded and name in LOG_DAMAGE:
        with pytest.raises(CorruptLogError, match=r"0000\.log: corrupt at position \d+: "):
            opened(case, recorded=recorded)
        return
    storage, effects = opened(case, recorded=recorded)
    repaired = [e for e in effects if isinstance(e, Log) and e.event == "log_repaired"]
    assert bool(repaired) == (name in LOG_DAMAGE), repaired
    log = storage.log
    ahead = name == "snapshot-ahead-of-log"
    assert ahead or log.end_offset == LOG_DAMAGE.get(name, END)
    loader = storage.loader
    while loader.end_offset < log.end_offset:
        loader.commit(committed_batches(log.read(loader.end_offset, 1 << 20)))
    assert loader.end_offset >= 40 or name == "snapshots-all-missing"


def test_no_case_is_left_out() -> None:
    assert len(CASES) == 23
    assert set(REFUSED) | set(LOG_DAMAGE) <= {case["case"] for case in CASES}
    kafka_stops = {case["case"] for case in CASES if case["kafka"] != "kept running"}
    assert kafka_stops <= set(REFUSED)  # ours is never the laxer one
