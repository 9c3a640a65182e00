"""Audit of the files of a log directory outside its partitions."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.core.audit.check_segment import CLEAN_SHUTDOWN_NAME, check_file
from pipeline.core.audit.findings import ERROR, INFO, WARN, Finding
from pipeline.core.reading.discovery import BOOTSTRAP_NAME, PartitionFiles, SegmentFile
from storage.checkpoints.checkpoint_files import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    decode_offsets,
)
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, decode_meta_properties
from storage.log_dir.unproven_mark import UNPROVEN_NAME
from wire.types import METADATA_TOPIC_NAME

_OFFSET_FILES: Final = (RECOVERY_POINT_NAME, HIGH_WATERMARK_NAME, LOG_START_NAME)


def check_directory(path: str, copies: Sequence[PartitionFiles]) -> list[Finding]:
    """Audit `meta.properties`, the offset checkpoints and `bootstrap.checkpoint` of a directory.

    Args:
        path: the directory.
        copies: partitions found in it.
    """
    node_id = next((copy.node_id for copy in copies if copy.node_id is not None), None)
    findings = _meta_properties(path, node_id)
    is_broker = any(
        copy.topic != METADATA_TOPIC_NAME and any(file.size for file in copy.segments)
        for copy in copies
    )
    for name in _OFFSET_FILES:
        findings += _offsets(f"{path}/{name}", node_id, is_wanted=is_broker)
    bootstrap = Path(path, BOOTSTRAP_NAME)
    if bootstrap.is_file():
        file = SegmentFile(
            path=str(bootstrap), topic=METADATA_TOPIC_NAME, partition=0, base_offset=0,
            size=bootstrap.stat().st_size, is_last=False, is_snapshot=True, node_id=node_id,
        )  # fmt: skip
        findings += check_file(file).findings
    findings += _unproven(f"{path}/{UNPROVEN_NAME}", node_id)
    return findings + _clean_shutdown(f"{path}/{CLEAN_SHUTDOWN_NAME}", node_id)


def _unproven(path: str, node_id: int | None) -> list[Finding]:
    if not Path(path).exists():
        return []
    detail = "this voter has not caught up since its disk was formatted: it elects empty logs only"
    return [Finding(severity=INFO, check="voter_unproven", path=path, node_id=node_id,
                    detail=detail)]  # fmt: skip


def _meta_properties(directory: str, node_id: int | None) -> list[Finding]:
    path = f"{directory}/{META_PROPERTIES_NAME}"

    def found(severity: str, check: str, **more: Any) -> list[Finding]:
        return [Finding(severity=severity, check=check, path=path, node_id=node_id, **more)]

    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return found(ERROR, "meta_properties_missing", detail="Kafka does not start without it")
    except OSError as error:
        return found(ERROR, "unreadable", detail=str(error.strerror))
    try:
        properties = decode_meta_properties(content, path)
    except CorruptFileError as error:
        return found(ERROR, "meta_properties_garbled", detail=error.reason)
    findings = []
    keys = [line.partition(b"=")[0].strip() for line in content.splitlines() if b"=" in line]
    for key, count in Counter(keys).items():
        if count > 1:
            at = content.rindex(key + b"=")
            findings += found(WARN, "meta_properties_duplicate", position=at,
                              detail=f"{key.decode(errors='replace')} stands there {count} times;"
                              " the last counts")  # fmt: skip
    if properties.directory_id is None:
        findings += found(WARN, "meta_properties_directory_id", detail="there is no directory.id")
    return findings


def _offsets(path: str, node_id: int | None, *, is_wanted: bool) -> list[Finding]:
    try:
        decode_offsets(Path(path).read_bytes(), path)
    except FileNotFoundError:
        if not is_wanted:
            return []
        return [Finding(severity=INFO, check="checkpoint_missing", path=path, node_id=node_id,
                        detail="there is no such file")]  # fmt: skip
    except OSError as error:
        return [Finding(severity=ERROR, check="unreadable", path=path, node_id=node_id,
                        detail=str(error.strerror))]  # fmt: skip
    except CorruptFileError as error:
        return [Finding(severity=ERROR, check="checkpoint_garbled", path=path, node_id=node_id,
                        detail=error.reason)]  # fmt: skip
    return []


def _clean_shutdown(path: str, node_id: int | None) -> list[Finding]:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return []
    try:
        # before 3.7 the file was empty
        if content and not isinstance(json.loads(content), dict):
            return [Finding(severity=INFO, check="clean_shutdown_garbled", path=path,
                            node_id=node_id, detail="not a JSON object")]  # fmt: skip
    except (ValueError, RecursionError) as error:
        return [Finding(severity=INFO, check="clean_shutdown_garbled", path=path, node_id=node_id,
                        detail=str(error))]  # fmt: skip
    return []
