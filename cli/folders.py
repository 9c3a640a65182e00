"""`kraftline storage format` and `info`: writing and reading of log directories."""

import os
import sys
from argparse import Namespace
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec

from cli.admin.controller_properties import read_properties_file
from cli.admin.feature_table import check_level, parse_levels
from cli.admin.scram import MECHANISMS, SALT_BYTES, Credential
from cli.arguments import INT32_MAX, UsageError, shortened
from cli.release_versions import new_cluster_levels
from kernel.config import NodeConfig
from kernel.formatting import FormatError, FormatRequest, format_directories
from metadata.bootstrap import bootstrap_records
from metadata.features import KRAFT_VERSION, LEVEL_STARTS, metadata_version_name
from metadata.image import METADATA_VERSION
from metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from metadata.schema import Record
from node.configs.config import read_config
from node.errors import ConfigError, StartError
from node.identity import check_cluster_id
from quorum_controller.security.scram import scram_keys
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import decode_uuid, encode_uuid, read_meta_properties
from storage.os_vfs import OsVfs
from wire.random_ids import random_uuid

DYNAMIC_FLAGS: Final = ("standalone", "initial_controllers", "no_initial_controllers")
NO_VOTERS: Final = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the "
    "following: --standalone, --initial-controllers, or --no-initial-controllers."
)


def run(options: Namespace) -> int:
    """Perform `storage format` or `storage info` and return the exit code."""
    try:
        return _format(options) if options.command == "format" else _info(options)
    except (
        UsageError,
        ConfigError,
        StartError,
        FormatError,
        CorruptFileError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        where = "" if error.filename is None else f"{shortened(str(error.filename))}: "
        sys.stderr.write(f"{where}{error.strerror or error}\n")
        return 1


def _format(options: Namespace) -> int:
    config = _static_config(options)
    check_cluster_id(options.cluster_id)
    features = new_cluster_levels(
        options.release_version,
        _feature_levels(options.feature),
        with_scram=bool(options.add_scram),
    )
    credentials = scram_records(options.add_scram)
    level = features[METADATA_VERSION]
    now = datetime.now(UTC)
    request = FormatRequest(
        cluster_id=options.cluster_id,
        features=features,
        ignore_formatted=options.ignore_formatted,
        now_ms=int(now.timestamp() * 1000),
        date=f"{now:%a %b %d %H:%M:%S UTC %Y}",
        credentials=tuple(credentials),
    )
    formatted = format_directories(OsVfs(), config, request, partial(random_uuid, SystemRandom()))
    if options.json:
        answer = {"formatted": formatted, "metadata_version": metadata_version_name(level)}
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        sys.stdout.writelines(_formatted_lines(formatted, config, request, level))
    return 0


def _static_config(options: Namespace) -> NodeConfig:
    """Read the node's configuration; refuses a quorum without static voters."""
    properties = read_properties_file(Path(options.config))
    if options.initial_controllers is not None:
        check_initial_controllers(options.initial_controllers)
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
    found = parse_levels(list(entries))
    for name, level in found.items():
        if name != METADATA_VERSION and name not in LEVEL_STARTS:
            raise UsageError(
                f"Unsupported feature: {name[:80]}. Supported features are: "
                f"{', '.join(sorted(LEVEL_STARTS))}"
            )
        check_level(name, level)
        if name == KRAFT_VERSION and level > 0:
            raise UsageError("kraft.version 1 is not supported yet: only static voters")
    return {name: level for name, level in found.items() if name != KRAFT_VERSION}


def check_initial_controllers(text: str) -> None:
    """Check that --initial-controllers is a list of ID@HOST:PORT:DIRECTORY_ID.

    Raises:
        UsageError: an entry is not, with Kafka's message.
    """
    for entry in text.split(","):
        number, separator, rest = entry.strip().partition("@")
        if not separator:
            raise UsageError("No @ found in dynamic voter string.")
        if not (number.isascii() and number.isdigit() and int(number[:11]) <= INT32_MAX):
            raise UsageError("Failed to parse node id in dynamic voter string.")
        host, separator, rest = rest.rpartition("]") if rest.startswith("[") else ("", "", rest)
        name, separator, rest = rest.partition(":")
        if not (host or name):
            raise UsageError("No hostname found after node id.")
        if not separator:
            raise UsageError("No colon following hostname could be found.")
        port, separator, directory = rest.partition(":")
        if not separator:
            raise UsageError("No colon following port could be found.")
        if not (port.isascii() and port.isdigit() and int(port[:6]) < 65536):
            raise UsageError("Failed to parse port in dynamic voter string.")
        try:
            decode_uuid(directory)
        except ValueError as error:
            raise UsageError("Failed to parse directory ID in dynamic voter string.") from error


def scram_records(entries: Sequence[str]) -> list[UserScramCredentialRecord]:
    """Records of `SCRAM-SHA-256=[name=N,password=P,iterations=I,salt="BASE64"]` entries.

    Raises:
        UsageError: an entry has another form.
    """
    records = []
    for entry in entries:
        mechanism, _, text = entry.partition("=")
        if mechanism not in MECHANISMS:
            raise UsageError(
                f"The add-scram mechanism {mechanism[:80]} is not supported: it is "
                f"{' or '.join(MECHANISMS)}"
            )
        if not (text.startswith("[") and text.endswith("]")):
            raise UsageError(f"Failed to parse value for '{mechanism}': no [name=value,...]")
        fields = dict(part.strip().partition("=")[::2] for part in text[1:-1].split(","))
        name = _unquoted(fields.pop("name", ""))
        if not name:
            raise UsageError("You must supply 'name' to add-scram")
        salt = _salt(fields.pop("salt", None))
        rest = ",".join(f"{key}={_unquoted(value)}" for key, value in fields.items())
        credential = Credential(mechanism, rest)
        stored, server = scram_keys(credential.number, credential.salted(salt))
        records.append(
            UserScramCredentialRecord(
                name=name,
                mechanism=credential.number,
                salt=salt,
                stored_key=stored,
                server_key=server,
                iterations=credential.iterations,
            )
        )
    return records


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _salt(text: str | None) -> bytes:
    if text is None:
        return os.urandom(SALT_BYTES)
    try:
        return b64decode(_unquoted(text), validate=True)
    except ValueError as error:
        raise UsageError(f"salt: {text[:80]} is not base64") from error


def _formatted_lines(
    formatted: Sequence[str], config: NodeConfig, request: FormatRequest, level: int
) -> list[str]:
    if not formatted:
        return ["All of the log directories are already formatted.\n"]
    lines = []
    bootstrap = bootstrap_records(level, request.features, request.credentials)
    if len(bootstrap) > 1:
        records = ", ".join(
            f"ApiMessageAndVersion({_java_text(record)} at version 0)" for record in bootstrap
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


def _java_text(record: Record) -> str:
    """A record as Java's toString prints it, with signed bytes."""
    if isinstance(record, FeatureLevelRecord):
        return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
    assert isinstance(record, UserScramCredentialRecord), f"{record=} is not of a bootstrap"

    def signed(content: bytes) -> str:
        return str([byte - 256 if byte > 127 else byte for byte in content])

    return (
        f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism}, "
        f"salt={signed(record.salt)}, storedKey={signed(record.stored_key)}, "
        f"serverKey={signed(record.server_key)}, iterations={record.iterations})"
    )


def _directories(path: Path) -> list[str]:
    """Folders of a server.properties, the metadata folder first; other keys are not checked.

    Raises:
        UsageError: the file names none, or cannot be read.
    """
    properties = read_properties_file(path)
    text = properties.get("log.dirs") or properties.get("log.dir", "")
    folders = [folder.strip() for folder in text.split(",") if folder.strip()]
    metadata = properties.get("metadata.log.dir", "").strip()
    if not (folders or metadata):
        raise UsageError(f"{path}: log.dirs is missing or empty")
    return list(dict.fromkeys([metadata or folders[0], *folders]))


def _info(options: Namespace) -> int:
    vfs = OsVfs()
    directories = _directories(Path(options.config))
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
