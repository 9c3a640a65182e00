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

import msgspec

from cli.admin.controller_properties import read_properties_file
from cli.admin.feature_table import check_level, parse_levels
from cli.admin.scram import MECHANISMS, SALT_BYTES, Credential
from cli.arguments import UsageError, shortened
from cli.initial_controllers import asked_voters
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
from raft.membership.voters import VoterSet
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import encode_uuid, read_meta_properties
from storage.os_vfs import OsVfs
from wire.random_ids import random_uuid


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
    config = read_config(Path(options.config))
    new_uuid = partial(random_uuid, SystemRandom())
    voters = asked_voters(options, config, new_uuid)
    check_cluster_id(options.cluster_id)
    features = new_cluster_levels(
        options.release_version,
        _feature_levels(options.feature),
        with_scram=bool(options.add_scram),
        is_dynamic=not config.voters,
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
        initial_voters=voters,
    )
    formatted = format_directories(OsVfs(), config, request, new_uuid)
    if options.json:
        answer = {
            "formatted": formatted,
            "metadata_version": metadata_version_name(level),
            "kraft_version": features[KRAFT_VERSION],
            "initial_voters": _as_objects(voters),
        }
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        sys.stdout.writelines(_formatted_lines(formatted, config, request, level))
    return 0


def _feature_levels(entries: Sequence[str]) -> dict[str, int]:
    found = parse_levels(list(entries))
    for name, level in found.items():
        if name != METADATA_VERSION and name not in LEVEL_STARTS:
            raise UsageError(
                f"Unsupported feature: {name[:80]}. Supported features are: "
                f"{', '.join(sorted(LEVEL_STARTS))}"
            )
        check_level(name, level)
    return found


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
        kind = _metadata_kind(config, request) if path == config.metadata_log_dir else "data"
        name = metadata_version_name(level)
        lines.append(f"Formatting {kind} directory {path} with metadata.version {name}.\n")
    return lines


def _metadata_kind(config: NodeConfig, request: FormatRequest) -> str:
    if request.initial_voters is None:
        return "metadata"
    is_voter = config.node_id in request.initial_voters.by_id
    return "dynamic metadata voter" if is_voter else "dynamic metadata"


def _as_objects(voters: VoterSet | None) -> list[dict[str, object]]:
    """Voters as JSON values, ascending by id."""
    if voters is None:
        return []
    return [
        {
            "id": key.id,
            "directory_id": encode_uuid(key.directory_id or b""),
            "endpoints": [
                f"{each.listener}://{each.host}:{each.port}"
                for each in voters.by_id[key.id].endpoints
            ],
        }
        for key in voters.keys
    ]


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
