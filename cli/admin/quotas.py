"""Client quotas of users, clients and addresses: describe, alter, output lines."""

from math import isfinite
from typing import Any, Final

from cli.admin import scram
from cli.admin.config_entities import (
    CLIENTS,
    DEFAULT,
    IPS,
    USERS,
    Change,
    Entities,
)
from cli.arguments import UsageError
from cli.command import Output
from cli.connect import Api, check, json_line, newest

DESCRIBE_CLIENT_QUOTAS: Final = 48
ALTER_CLIENT_QUOTAS: Final = 49
MATCH_EXACT, MATCH_DEFAULT, MATCH_ANY = 0, 1, 2
_QUOTA_ENTITIES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
CLIENT_QUOTAS: Final = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
    }
)
IP_QUOTAS: Final = frozenset({"connection_creation_rate"})


def check_names(entities: Entities, change: Change) -> None:
    """Check the names that may be set and deleted for users, clients and addresses, as Kafka does.

    Raises:
        UsageError: a name that the type of entity does not have.
    """
    if entities.kind == IPS:
        unknown = [n for n in (*change.added, *change.deleted) if n not in IP_QUOTAS]
        if unknown:
            raise UsageError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        return
    is_user = entities.kinds == (USERS,)
    allowed = CLIENT_QUOTAS | scram.NAMES if is_user else CLIENT_QUOTAS
    what = "quota and SCRAM credential" if is_user else "quota"
    of = USERS if is_user else CLIENTS
    for names, done in ((change.added, "added"), (change.deleted, "deleted")):
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise UsageError(
                f"Only {what} configs can be {done} for '{of}' using --bootstrap-server. "
                f"Unexpected config names: Set({', '.join(unknown)})"
            )
    if scram.is_about(change):
        if entities.name == DEFAULT:
            raise UsageError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
                "Credentials using --bootstrap-server."
            )
        if CLIENT_QUOTAS & {*change.added, *change.deleted}:
            raise UsageError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' "
                "using --bootstrap-server."
            )


def alter(api: Api, entities: Entities, change: Change) -> None:
    """Set and delete quotas of one entity.

    Raises:
        UsageError: a value is no number, or a quota to delete is not set.
        ClusterError: refused; nothing was changed.
    """
    values = {name: _number(name, text) for name, text in change.added.items()}
    known = {
        value.key
        for entry in _described(api, entities)
        for value in entry.values
    } if change.deleted else set()  # fmt: skip
    missing = [name for name in change.deleted if name not in known]
    if missing:
        raise UsageError(f"Invalid config(s): {','.join(missing)}")
    module = newest(ALTER_CLIENT_QUOTAS)
    operations = [
        *(module.OpData(key=name, value=value, remove=False) for name, value in values.items()),
        *(module.OpData(key=name, value=0.0, remove=True) for name in change.deleted),
    ]
    entity = tuple(
        module.EntityData(
            entity_type=_QUOTA_ENTITIES[kind], entity_name=None if name == DEFAULT else name
        )
        for kind, name in sorted(zip(entities.kinds, entities.names, strict=True))
    )
    request = module.AlterClientQuotasRequest(
        entries=(module.EntryData(entity=entity, ops=tuple(operations)),), validate_only=False
    )
    for entry in api.call(ALTER_CLIENT_QUOTAS, request).entries:
        check(entry)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise UsageError(f"Cannot parse quota configuration value for {name}: {text[:80]}")
    return value


def _described(api: Api, entities: Entities) -> tuple[Any, ...]:
    module = newest(DESCRIBE_CLIENT_QUOTAS)
    components = []
    for index, kind in enumerate(entities.kinds):
        name = entities.names[index] if index < len(entities.names) else None
        match = MATCH_ANY if name is None else MATCH_DEFAULT if name == DEFAULT else MATCH_EXACT
        components.append(
            module.ComponentData(
                entity_type=_QUOTA_ENTITIES[kind],
                match_type=match,
                match=name if match == MATCH_EXACT else None,
            )
        )
    request = module.DescribeClientQuotasRequest(components=tuple(components), strict=True)
    return check(api.call(DESCRIBE_CLIENT_QUOTAS, request)).entries or ()


def describe(api: Api, entities: Entities, *, as_json: bool) -> Output:
    """Describe quotas, for users also their SCRAM credentials."""
    entries = _described(api, entities)
    users: list[Any] = []
    if entities.kinds == (USERS,) and entities.name != DEFAULT:
        users = scram.describe(api, entities.name)
    if as_json:
        return Output(json_line({
            "quotas": [
                {"entity": {e.entity_type: e.entity_name for e in entry.entity},
                 "values": {value.key: value.value for value in entry.values}}
                for entry in entries
            ],
            "scram": [scram.as_object(user) for user in users],
        }))  # fmt: skip
    return Output("".join([*map(_line, entries), *map(scram.line, users)]))


def _line(entry: Any) -> str:
    names = {part.entity_type: part.entity_name for part in entry.entity}
    who = ", ".join(
        f"the default {word}" if names[kind] is None else f"{word} '{names[kind]}'"
        for kind, word in _WORDS.items()
        if kind in names
    )
    values = ", ".join(f"{value.key}={java_double(value.value)}" for value in entry.values)
    return f"Quota configs for {who} are {values}\n"


def java_double(value: float) -> str:
    """A number as Java's Double.toString prints it."""
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    shortest = repr(value)
    if "e" in shortest:
        mantissa, _, exponent = shortest.partition("e")
    else:
        digits = shortest.replace(".", "").replace("-", "").strip("0") or "0"
        mantissa = ("-" if value < 0 else "") + digits[0] + "." + (digits[1:] or "0")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
