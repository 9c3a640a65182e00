"""`kraftline storage format` and `info`: what is written to folders and read from them."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from cli.arguments import UsageError
from cli.release_versions import features_at, level_of
from kernel.config import NodeConfig
from kernel.formatting import (
    FormatError,
    FormatRequest,
    format_directories,
    metadata_folder_first,
)
from metadata.features import metadata_version_name, unsupported
from metadata.image import METADATA_VERSION
from node.config import read_config
from node.errors import ConfigError
from node.properties import PropertiesError, parse_properties
from storage.errors import CorruptFileError
from storage.meta_properties import encode_uuid, read_meta_properties
from storage.os_vfs import OsVfs

DYNAMIC_FLAGS: Final = ("standalone", "initial_controllers", "no_initial_controllers")
NO_VOTERS: Final = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the "
    "following: --standalone, --initial-controllers, or --no-initial-controllers."
)


def run(options: Namespace) -> int:
    """`storage format` or `storage info`; returns the exit code."""
    try:
        return _format(options) if options.command == "format" else _info(options)
    except (
        UsageError,
        ConfigError,
        PropertiesError,
        FormatError,
        CorruptFileError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"{where}{error.strerror or error}\n")
        return 1


def _new_uuid() -> bytes:
    content = bytearray(os.urandom(16))
    content[6] = content[6] & 0x0F | 0x40
    content[8] = content[8] & 0x3F | 0x80
    return bytes(content)


def _format(options: Namespace) -> int:
    config = _static_config(options)
    level = level_of(options.release_version, with_scram=bool(options.add_scram))
    if options.add_scram:
        raise UsageError("--add-scram is not supported yet")
    features = {**features_at(level), **_feature_levels(options.feature)}
    refused = unsupported(features)
    if refused:
        raise UsageError(f"not supported by a node of this software: {'; '.join(refused)}")
    level = features[METADATA_VERSION]
    now = datetime.now(UTC)
    request = FormatRequest(
        cluster_id=options.cluster_id,
        features=features,
        ignore_formatted=options.ignore_formatted,
        now_ms=int(now.timestamp() * 1000),
        date=f"{now:%a %b %d %H:%M:%S UTC %Y}",
    )
    formatted = format_directories(OsVfs(), config, request, _new_uuid)
    if options.json:
        answer = {"formatted": formatted, "metadata_version": metadata_version_name(level)}
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        sys.stdout.writelines(_formatted_lines(formatted, config, request, level))
    return 0


def _static_config(options: Namespace) -> NodeConfig:
    """The node's configuration; a quorum without static voters is refused here."""
    properties = parse_properties(Path(options.config).read_text(encoding="utf-8"))
    asked = [flag for flag in DYNAMIC_FLAGS if getattr(options, flag)]
    if not properties.get("controller.quorum.voters") and not asked:
        raise UsageError(NO_VOTERS)
    if asked:
        flag = "--" + asked[0].replace("_", "-")
        raise UsageError(
            f"{flag} is not supported yet: only static voters (controller.quorum.voters)"
        )
    return read_config(Path(options.config))


def _feature_levels(entries: Sequence[str]) -> dict[str, int]:
    found = {}
    for entry in entries:
        name, _, level = entry.partition("=")
        if not name or not level.isdigit():
            raise UsageError(f"Can't parse feature=level string {entry}: equals sign not found.")
        if name.strip() == "kraft.version":
            raise UsageError("kraft.version is not supported yet: only static voters")
        found[name.strip()] = int(level)
    return found


def _formatted_lines(
    formatted: Sequence[str], config: NodeConfig, request: FormatRequest, level: int
) -> list[str]:
    if not formatted:
        return ["All of the log directories are already formatted.\n"]
    lines = []
    if len(request.features) > 1:
        records = ", ".join(
            f"ApiMessageAndVersion(FeatureLevelRecord(name='{name}', featureLevel={value}) "
            "at version 0)"
            for name, value in request.features.items()
        )
        lines.append(
            f"Bootstrap metadata: BootstrapMetadata(records=[{records}], "
            f"metadataVersionLevel={level}, source=format command)\n"
        )
    for path in formatted:
        kind = "metadata" if path == config.metadata_log_dir else "data"
        name = metadata_version_name(level)
        lines.append(f"Formatting {kind} directory {path} with metadata.version {name}.\n")
    return lines


def _info(options: Namespace) -> int:
    config = read_config(Path(options.config))
    vfs = OsVfs()
    directories = metadata_folder_first(config)
    found: list[str] = []
    problems: list[str] = []
    metadata: dict[str, str] = {}
    for path in directories:
        if not vfs.is_directory(path):
            problems.append(f"{path} does not exist")
            continue
        found.append(path)
        properties = read_meta_properties(vfs, path)
        if properties is None:
            problems.append(f"{path} is not formatted.")
        elif not metadata:
            metadata["cluster.id"] = properties.cluster_id
            if properties.directory_id is not None:
                metadata["directory.id"] = encode_uuid(properties.directory_id)
            metadata |= {"node.id": str(properties.node_id), "version": "1"}
    if options.json:
        answer = {"directories": found, "metadata": metadata, "problems": problems}
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        sys.stdout.write(info_text(found, metadata, problems))
    return 1 if problems else 0


def info_text(found: Sequence[str], metadata: dict[str, str], problems: Sequence[str]) -> str:
    """The paragraphs of `storage info`."""
    text = _paragraph("Found log director" + ("y:" if len(found) == 1 else "ies:"), found)
    if metadata:
        fields = ", ".join(f"{key}={value}" for key, value in metadata.items())
        text += f"Found metadata: {{{fields}}}\n\n"
    return text + _paragraph("Found problem" + (":" if len(problems) == 1 else "s:"), problems)


def _paragraph(heading: str, lines: Sequence[str]) -> str:
    return "".join([f"{heading}\n", *(f"  {line}\n" for line in lines), "\n"]) if lines else ""
