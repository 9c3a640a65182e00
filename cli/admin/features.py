"""`kraftline features`: finalized feature levels (kafka-features' flags, lines, exit codes)."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Final

from cli.arguments import Parser, UsageError, check_bootstrap, integer
from cli.command import Output, execute
from cli.connect import (
    Api,
    ClusterError,
    Connect,
    check,
    error_text,
    json_line,
    newest,
    open_cluster,
)

API_VERSIONS: Final = 18
UPDATE_FEATURES: Final = 57
METADATA_VERSION: Final = "metadata.version"
TIMEOUT: Final = timedelta(seconds=30)
OFFLINE: Final = ("version-mapping", "feature-dependencies")
# command -> (completed change, wanted change), as Kafka's tool words them
_WORDS: Final = {
    "upgrade": ("upgraded to {level}", "upgrade {name} to {level}"),
    "downgrade": ("downgraded to {level}", "downgrade {name} to {level}"),
    "disable": ("disabled", "disable {name}"),
}


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Describe or change feature levels and return the exit code."""
    return execute(arguments, _parse, perform, lambda options: _connected(options, connect))


def _connected(options: Namespace, connect: Connect) -> AbstractContextManager[Any]:
    """Connect to the cluster, or to nothing for the commands that need none."""
    return nullcontext() if options.command in OFFLINE else connect(options)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline features", "Describe and change finalized feature levels.")
    parser.bootstrap()
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    describing = commands.add_parser("describe")
    describing.add_argument("--node-id", type=integer(), help="the node that is asked")
    for name in ("upgrade", "downgrade"):
        command = commands.add_parser(name)
        command.add_argument("--metadata", help="deprecated: a metadata.version, such as 3.9-IV0")
        command.add_argument("--release-version", help="all features as of a release")
    commands.add_parser("disable")
    for name in _WORDS:
        command = commands.choices[name]
        command.add_argument(
            "--feature", action="append", default=[], help="NAME=LEVEL; repeatable"
        )
        command.add_argument("--dry-run", action="store_true", help="only ask whether it could be")
        if name != "upgrade":
            command.add_argument("--unsafe", action="store_true", help="even if metadata is lost")
    mapping = commands.add_parser("version-mapping")
    mapping.add_argument("--release-version", help="a release; default: the newest")
    dependencies = commands.add_parser("feature-dependencies")
    dependencies.add_argument("--feature", action="append", required=True, help="NAME=LEVEL")
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    if options.command not in OFFLINE:
        check_bootstrap(options)
    return options


def perform(api: Api, options: Namespace) -> Output:
    """Perform the command of the options.

    Raises:
        UsageError: nothing to change, or a level that cannot be parsed.
        ClusterError: the cluster cannot be reached or refuses.
    """
    if options.command in OFFLINE:
        return Output(offline(options))
    if options.command == "describe":
        return _describe(api, options)
    return _update(api, options)


def offline(options: Namespace) -> str:
    """The output of `version-mapping` and `feature-dependencies`, which need no cluster."""
    from cli.admin import feature_table  # noqa: PLC0415  # only these need the names of all levels

    if options.command == "version-mapping":
        return feature_table.version_mapping(options.release_version, as_json=options.json)
    levels = feature_table.parse_levels(options.feature)
    return feature_table.feature_dependencies(levels, as_json=options.json)


def _versions(api: Api, node: int | None = None) -> Any:
    request = newest(API_VERSIONS).ApiVersionsRequest(
        client_software_name="kraftline-cli", client_software_version="1"
    )
    return check(api.call(API_VERSIONS, request, node))


def _describe(api: Api, options: Namespace) -> Output:
    from metadata.features import metadata_version_name  # noqa: PLC0415  # help comes without it

    answer = _versions(api, options.node_id)
    levels = {row.name: int(row.max_version_level) for row in answer.finalized_features}
    epoch = int(answer.finalized_features_epoch)
    rows = sorted(answer.supported_features, key=lambda row: str(row.name))
    if options.json:
        return Output(json_line({
            "epoch": epoch if epoch >= 0 else None,
            "features": [
                {"name": row.name, "supported_min": int(row.min_version),
                 "supported_max": int(row.max_version), "finalized": levels.get(row.name, 0)}
                for row in rows
            ],
        }))  # fmt: skip

    def shown(name: str, level: int) -> str:
        return metadata_version_name(level) if name == METADATA_VERSION else str(level)

    return Output("".join(
        f"Feature: {row.name:<42}"
        f"SupportedMinVersion: {shown(row.name, int(row.min_version)):<17}"
        f"SupportedMaxVersion: {shown(row.name, int(row.max_version)):<17}"
        f"FinalizedVersionLevel: {shown(row.name, levels.get(row.name, 0)):<17}"
        f"Epoch: {epoch if epoch >= 0 else '-'}\n"
        for row in rows
    ))  # fmt: skip


def _update(api: Api, options: Namespace) -> Output:
    """Send one request for all features: it is accepted or refused as a whole."""
    from wire.messages.upgrade_types import (  # noqa: PLC0415  # --help does without them
        SAFE_DOWNGRADE,
        UNSAFE_DOWNGRADE,
        UPGRADE,
    )

    levels, warning = _wanted_levels(options)
    module = newest(UPDATE_FEATURES)
    kind = UPGRADE
    if options.command != "upgrade":
        kind = UNSAFE_DOWNGRADE if options.unsafe else SAFE_DOWNGRADE
    request = module.UpdateFeaturesRequest(
        timeout=TIMEOUT,
        feature_updates=tuple(
            module.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels.items()
        ),
        validate_only=options.dry_run,
    )
    answer = api.call(UPDATE_FEATURES, request)
    errors = _errors(answer, levels)
    if options.json:
        rows = [
            {"name": name, "level": level, "error": errors.get(name)}
            for name, level in sorted(levels.items())
        ]
        text = json_line({"dry_run": options.dry_run, "features": rows})
    else:
        text = warning + "".join(
            _line(options, name, level, errors.get(name)) for name, level in sorted(levels.items())
        )
    if not errors:
        return Output(text)
    return Output(text, f"{len(errors)} out of {len(levels)} operation(s) failed.\n", 1)


def _errors(answer: Any, levels: Mapping[str, int]) -> dict[str, str]:
    """Feature -> reason of its refusal; a node of an older release answers per feature."""
    rows = {
        str(row.feature): error_text(row.error_code, row.error_message)
        for row in getattr(answer, "results", ())
        if int(row.error_code)
    }
    if rows or not int(answer.error_code):
        return rows
    if int(answer.error_code) in _WHOLE_REQUEST:
        raise ClusterError(error_text(answer.error_code, answer.error_message))
    return dict.fromkeys(levels, error_text(answer.error_code, answer.error_message))


_WHOLE_REQUEST: Final = (31, 41)
"""Errors of the whole request, not of a feature: not authorized, not the controller."""


def _line(options: Namespace, name: str, level: int, error: str | None) -> str:
    done, wish = _WORDS[options.command]
    if error is not None:
        could = "Can not" if options.dry_run else "Could not"
        return f"{could} {wish.format(name=name, level=level)}. {error}\n"
    was = "can be" if options.dry_run else "was"
    return f"{name} {was} {done.format(level=level)}.\n"


def _wanted_levels(options: Namespace) -> tuple[dict[str, int], str]:
    """Feature -> level, and a warning to print before the result."""
    from cli.admin.feature_table import level_named, parse_levels  # noqa: PLC0415  # see above
    from metadata.features import release_levels  # noqa: PLC0415  # see above

    if options.command == "disable":
        if not options.feature:
            raise UsageError("You must specify at least one feature to disable.")
        names = [name.partition("=")[0].strip() for name in options.feature]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"Feature {name} was specified more than once.")
        return dict.fromkeys(names, 0), ""
    levels = parse_levels(options.feature)
    if options.release_version is not None:
        if levels or options.metadata is not None:
            raise UsageError("Can not specify `release-version` with other feature flags.")
        lowest = 1 if options.command == "upgrade" else 0
        levels = release_levels(level_named(options.release_version))
        return {name: level for name, level in levels.items() if level >= lowest}, ""
    warning = ""
    if options.metadata is not None:
        if METADATA_VERSION in levels:
            raise UsageError(f"Feature {METADATA_VERSION} was specified more than once.")
        levels = {METADATA_VERSION: level_named(options.metadata), **levels}
        warning = " `metadata` flag is deprecated and may be removed in a future release.\n"
    if not levels:
        raise UsageError(f"You must specify at least one feature to {options.command}")
    return levels, warning
