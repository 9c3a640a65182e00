"""Golden directories of real Kafka, loaded into a file system in memory."""

import json
from pathlib import Path
from typing import Any

from simulator.cluster.memory_vfs import MemoryVfs

ROOT = Path(__file__).resolve().parent.parent / "golden" / "storage"
SEGMENT = "__cluster_metadata-0"


def load(folder: str, target: str = "/log") -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory(target)
    overlay(vfs, folder, target)
    return vfs


def overlay(vfs: MemoryVfs, folder: str, target: str = "/log") -> None:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file():
            put(vfs, f"{target}/{path.relative_to(ROOT / folder).as_posix()}", path.read_bytes())


def put(vfs: MemoryVfs, path: str, content: bytes) -> None:
    vfs.make_directory(path.rpartition("/")[0])
    file = vfs.open(path, create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.sync()
    vfs.sync_directory(path.rpartition("/")[0])
    vfs.sync_directory(path.rpartition("/")[0].rpartition("/")[0] or "/")


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "bad" / "cases.json").read_text())
    return found


def bad(case: dict[str, Any]) -> MemoryVfs:
    vfs = load("static")
    overlay(vfs, f"bad/{case['case']}")
    for name in case["removed"]:
        vfs.unlink(f"/log/{name}")
    return vfs
