"""`kraftline configs`: configs, quotas and SCRAM credentials (kafka-configs' lines, codes)."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from cli.admin import config_resources, quotas, scram
from cli.admin.config_entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENTS,
    DEFAULT,
    IPS,
    TYPES,
    USERS,
    Change,
    Entities,
)
from cli.arguments import Parser, UsageError, check_bootstrap, exactly_one, text
from cli.command import Output, execute
from cli.connect import Api, Connect, open_cluster

_SHORTCUTS: Final = {
    "topic": "topics",
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS: Final = {"client-defaults": CLIENTS, "user-defaults": USERS, "broker-defaults": BROKERS,
                    "ip-defaults": IPS}  # fmt: skip


class _Entity(Action):
    """Flag such as --topic T: a type and a name in one; flags of defaults have no name."""

    @override
    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option: Any = None
    ) -> None:
        flag = str(option)[2:]
        namespace.shortcuts.append(
            (_DEFAULTS[flag], DEFAULT) if flag in _DEFAULTS else (_SHORTCUTS[flag], values)
        )


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Describe or alter configs and return the exit code."""
    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline configs", "Describe and alter configs, quotas, SCRAM credentials.")
    parser.bootstrap()
    parser.flags(
        {
            "describe": "show configs",
            "alter": "change configs",
            "all": "describe: those that nobody set too",
            "force": "accepted for compatibility: nothing is asked",
            "json": "one JSON object",
        }
    )
    parser.add_argument("--entity-type", action="append", default=[], help=", ".join(TYPES))
    parser.add_argument("--entity-name", action="append", dest="entity_names", type=text)
    parser.add_argument(
        "--entity-default", action="append_const", const=DEFAULT, dest="entity_names"
    )
    for flag, kind in _SHORTCUTS.items():
        parser.add_argument(
            f"--{flag}", action=_Entity, type=text, help=f"the same for one of {kind}"
        )
    for flag, kind in _DEFAULTS.items():
        parser.add_argument(
            f"--{flag}", action=_Entity, nargs=0, help=f"the same for the default of {kind}"
        )
    parser.add_argument("--add-config", help="k=v,k=[a,b]")
    parser.add_argument("--add-config-file", help="a properties file of configs to set")
    parser.add_argument("--delete-config", help="names, separated by commas")
    parser.set_defaults(shortcuts=[])
    options = parser.parse_args(arguments)
    exactly_one(
        parser,
        options,
        ("describe", "alter"),
        "Command must include exactly one action: --describe, --alter",
    )
    check_bootstrap(options)
    options.entities = _entities(options)
    options.change = _change(options) if options.alter else Change({}, ())
    _check_describe(options)
    return options


def _check_describe(options: Namespace) -> None:
    given = [options.add_config, options.add_config_file, options.delete_config]
    if options.describe and any(value is not None for value in given):
        raise UsageError(
            "--add-config, --add-config-file and --delete-config can only be used with --alter"
        )
    if options.alter and options.all:
        raise UsageError("--all can only be used with --describe")


def _entities(options: Namespace) -> Entities:
    """Entities named by the flags, after the checks of Kafka's tool.

    Raises:
        UsageError: no type, an unknown one, a wrong combination, or a name missing.
    """
    names = options.entity_names or []
    if options.shortcuts and (options.entity_type or names):
        raise UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )
    kinds = list(options.entity_type) or [kind for kind, _ in options.shortcuts]
    if options.shortcuts:
        names = [name for _, name in options.shortcuts]
    if not kinds:
        raise UsageError("At least one entity type must be specified")
    for kind in kinds:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind[:80]}, the entity type must be one of "
                f"{', '.join(TYPES)} with a --bootstrap-server or --bootstrap-controller argument"
            )
    duplicates = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if duplicates:
        raise UsageError(f"Duplicate entity type(s): {','.join(duplicates)}")
    if len(kinds) > 1 and sorted(kinds) != [CLIENTS, USERS]:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    if len(names) > len(kinds):
        raise UsageError("There are more entity names than entity types")
    if options.alter and len(names) < len(kinds):
        raise UsageError(
            "At least one of --entity-name, --entity-default or a flag such as --topic must be "
            "specified with --alter"
        )
    _check_names(kinds, names)
    return Entities(tuple(kinds), tuple(names))


def _check_names(kinds: Sequence[str], names: Sequence[str]) -> None:
    for kind, name in zip(kinds, names, strict=False):
        if name == DEFAULT and kind not in (BROKERS, CLIENTS, USERS, IPS):
            raise UsageError(f"--entity-default is not allowed with entity type {kind}")
        if kind in (BROKERS, BROKER_LOGGERS) and name != DEFAULT:
            is_id = name.isascii() and name.isdigit() and int(name[:11]) < 2**31
            if not is_id:
                raise UsageError(
                    f"The entity name for {kind} must be a valid integer broker id, but it is: "
                    f"{name[:80]}"
                )


def _change(options: Namespace) -> Change:
    """Configs to set and to delete.

    Raises:
        UsageError: there is none, or an entry is not key=value.
    """
    given = [options.add_config, options.add_config_file, options.delete_config]
    if all(value is None for value in given):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )
    added: dict[str, str] = {}
    if options.add_config_file is not None:
        from cli.admin.controller_properties import read_properties_file  # noqa: PLC0415

        added |= read_properties_file(Path(options.add_config_file))
    if options.add_config is not None:
        added |= parse_pairs(options.add_config)
    deleted = tuple(
        name.strip() for name in (options.delete_config or "").split(",") if name.strip()
    )
    if not added and not deleted:
        raise UsageError("no config is named by --add-config, --add-config-file, --delete-config")
    return Change(added, deleted)


def parse_pairs(text: str) -> dict[str, str]:
    """Pairs of `k=v,k=[a,b]`, without the brackets of lists.

    Raises:
        UsageError: an entry is not key=value.
    """
    found = {}
    for entry in _entries(text):
        name, separator, value = entry.partition("=")
        if not separator or not name.strip():
            raise UsageError(
                'Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        found[name.strip()] = value.replace("[", "").replace("]", "").strip()
    return found


def _entries(text: str) -> list[str]:
    """Split at the commas outside brackets and drop empty entries."""
    entries, depth = [""], 0
    for character in text:
        if character == "," and depth == 0:
            entries.append("")
            continue
        depth += {"[": 1, "]": -1}.get(character, 0)
        depth = max(depth, 0)
        entries[-1] += character
    return [entry.strip() for entry in entries if entry.strip()]


def perform(api: Api, options: Namespace) -> Output:
    """Perform the action of the options.

    Raises:
        ClusterError: the cluster refuses.
        UsageError: the configs do not suit the entity.
    """
    entities: Entities = options.entities
    if options.describe:
        if entities.kind in (USERS, CLIENTS, IPS):
            return quotas.describe(api, entities, as_json=options.json)
        return config_resources.describe(api, entities, show_all=options.all, as_json=options.json)
    if entities.kind in (USERS, CLIENTS, IPS):
        _alter_quotas(api, entities, options.change)
    else:
        config_resources.alter(api, entities, options.change)
    return config_resources.completed(entities, as_json=options.json)


def _alter_quotas(api: Api, entities: Entities, change: Change) -> None:
    quotas.check_names(entities, change)
    if scram.is_about(change):
        scram.alter(api, entities.name or "", change)
    else:
        quotas.alter(api, entities, change)
