"""`kraftline acls`: access control lists (kafka-acls' flags, lines, exit codes)."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from typing_extensions import override

from cli.arguments import Parser, UsageError, check_bootstrap, exactly_one, text
from cli.command import Output, execute
from cli.connect import Api, Connect, check, json_line, newest, open_cluster

DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
ANY: Final = 1
RESOURCES: Final = {
    "topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "delegation-token": 6,
    "user-principal": 7,
}  # fmt: skip
RESOURCE_NAMES: Final = {1: "ANY"} | {
    number: ("USER" if name == "user-principal" else name.upper().replace("-", "_"))
    for name, number in RESOURCES.items()
}
PATTERNS: Final = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
PATTERN_NAMES: Final = {number: name.upper() for name, number in PATTERNS.items()}
OPERATIONS: Final = {
    "All": 2, "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8,
    "ClusterAction": 9, "DescribeConfigs": 10, "AlterConfigs": 11, "IdempotentWrite": 12,
    "CreateTokens": 13, "DescribeTokens": 14, "TwoPhaseCommit": 15,
}  # fmt: skip
OPERATION_NAMES: Final = {1: "ANY"} | {
    number: "".join("_" + c if c.isupper() and i else c for i, c in enumerate(name)).upper()
    for name, number in OPERATIONS.items()
}
DENY, ALLOW = 2, 3
PERMISSION_NAMES: Final = {1: "ANY", DENY: "DENY", ALLOW: "ALLOW"}
CLUSTER_NAME: Final = "kafka-cluster"
_PRODUCER: Final = (4, 8, 5)
"""Operations of a producer on a topic: Write, Describe, Create."""
_CONSUMER: Final = (3, 8)
"""Operations of a consumer on a topic: Read, Describe."""
_FITTING: Final[dict[str, frozenset[int]]] = {
    "topic": frozenset((2, 3, 4, 5, 6, 7, 8, 10, 11)),
    "group": frozenset((2, 3, 6, 8, 10, 11)),
    "cluster": frozenset((2, 5, 7, 8, 9, 10, 11, 12)),
    "transactional-id": frozenset((2, 4, 8, 15)),
    "delegation-token": frozenset((2, 8)),
    "user-principal": frozenset((2, 13, 14)),
}
"""Operations that Kafka allows for each type of resource."""


class Resource(msgspec.Struct, frozen=True):
    """A resource pattern."""

    kind: str
    name: str | None
    """None for any name."""
    pattern: int

    @override
    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={RESOURCE_NAMES[RESOURCES[self.kind]]}, "
            f"name={self.name}, patternType={PATTERN_NAMES[self.pattern]})"
        )


class Entry(msgspec.Struct, frozen=True):
    """One access control entry: allows or denies an operation to a principal from a host."""

    principal: str
    host: str
    operation: int
    permission: int

    @override
    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, "
            f"operation={OPERATION_NAMES.get(self.operation, 'UNKNOWN')}, "
            f"permissionType={PERMISSION_NAMES.get(self.permission, 'UNKNOWN')})"
        )


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Add, list or remove access control lists and return the exit code."""
    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline acls", "Add, list, remove access control lists.")
    parser.bootstrap()
    parser.flags({"add": "add entries", "list": "list entries", "remove": "remove entries",
                  "cluster": "of the cluster", "producer": "all that a producer needs",
                  "consumer": "all that a consumer needs",
                  "idempotent": "of an idempotent producer",
                  "force": "remove without asking", "json": "one JSON object"})  # fmt: skip
    for kind in RESOURCES:
        if kind != "cluster":
            parser.add_argument(
                f"--{kind}", action="append", default=[], type=text, help="a name or *; repeatable"
            )
    parser.add_argument("--resource-pattern-type", default="literal", type=str.lower,
                        help="literal, prefixed; list and remove: any, match")  # fmt: skip
    parser.add_argument("--operation", action="append", default=[], help=", ".join(OPERATIONS))
    for flag in ("principal", "allow-principal", "deny-principal", "allow-host", "deny-host"):
        parser.add_argument(f"--{flag}", action="append", default=[], type=text, help="repeatable")
    options = parser.parse_args(arguments)
    check_bootstrap(options)
    action = exactly_one(
        parser, options, ("add", "list", "remove"),
        "Command must include exactly one action: --list, --add, --remove. ",
    )  # fmt: skip
    _check(parser, options, action)
    return options


def _check(parser: Parser, options: Namespace, action: str) -> None:
    pattern = options.resource_pattern_type
    if pattern not in PATTERNS or (action == "add" and pattern not in ("literal", "prefixed")):
        parser.error(
            f"A '--resource-pattern-type' value of '{pattern[:80]}' is not valid"
            + (" when adding acls." if action == "add" else ".")
        )
    for name in options.operation:
        _operation(name)
    _check_principals(options)
    if options.principal and action != "list":
        parser.error("The --principal option is only available if --list is set")
    if (options.producer or options.consumer) and (options.operation or options.deny_principal):
        parser.error(
            'Option "--producer" or "--consumer" can\'t be used with "--operation" or '
            '"--deny-principal"'
        )
    is_convenient = options.producer or options.consumer
    if action == "remove" and is_convenient and not options.allow_principal:
        parser.error(
            "You must specify --allow-principal when removing ACLs with --producer or --consumer."
        )
    if options.idempotent and not options.producer:
        parser.error("The --idempotent option is only available if --producer is set")
    _check_convenience(parser, options)
    if action == "add" and not (options.allow_principal or options.deny_principal):
        parser.error(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    if not _resources(options) and action != "list":
        verb = "trying to add" if action == "add" else "removing"
        parser.error(f"You must specify at least one resource: --topic <topic> or --cluster or "
                     f"--group <group> when {verb} ACLs.")  # fmt: skip


def _check_principals(options: Namespace) -> None:
    for principal in (*options.principal, *options.allow_principal, *options.deny_principal):
        kind, separator, name = principal.partition(":")
        if not (separator and kind and name):
            raise UsageError(
                f"expected a string in format principalType:principalName but got {principal[:80]}"
            )


def _check_convenience(parser: Parser, options: Namespace) -> None:
    if options.producer and not options.topic:
        parser.error("With --producer you must specify a --topic")
    if options.consumer and not (options.topic and options.group):
        parser.error("With --consumer you must specify a --topic and a --group")
    if options.consumer and not options.producer and (options.cluster or options.transactional_id):
        parser.error(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def _operation(name: str) -> int:
    for known, number in OPERATIONS.items():
        if name.lower() in (known.lower(), OPERATION_NAMES[number].lower()):
            return number
    raise UsageError(f"'{name[:80]}' is not an operation; allowed are {', '.join(OPERATIONS)}")


def _resources(options: Namespace) -> list[Resource]:
    pattern = PATTERNS[options.resource_pattern_type]
    found = []
    for kind in RESOURCES:
        if kind == "cluster":
            names = [CLUSTER_NAME] if options.cluster else []
        else:
            names = getattr(options, kind.replace("-", "_"))
        for name in dict.fromkeys(names):
            is_any = name == "*" and pattern == PATTERNS["any"]
            # the cluster has one name; a pattern type that only filters keeps its meaning
            kept = PATTERNS["literal"] if kind == "cluster" else pattern
            found.append(Resource(kind, None if is_any else name.strip(), kept))
    return found


def _entries(options: Namespace, operations: Sequence[int]) -> list[Entry]:
    """All entries of the principals and hosts on the command line, each with all operations."""
    found = []
    for principals, hosts, permission in (
        (options.allow_principal, options.allow_host, ALLOW),
        (options.deny_principal, options.deny_host, DENY),
    ):
        found += [
            Entry(principal, host, operation, permission)
            for principal in dict.fromkeys(principals)
            for host in dict.fromkeys(hosts or ["*"])
            for operation in operations
        ]
    return found


def _wanted(options: Namespace) -> dict[Resource, list[Entry]]:
    """Resource -> entries; --producer and --consumer imply operations by the type of resource."""
    resources = _resources(options)
    found: dict[Resource, list[Entry]] = {resource: [] for resource in resources}
    if not (options.producer or options.consumer):
        operations = [_operation(name) for name in dict.fromkeys(options.operation or ["All"])]
        for resource in resources:
            _check_fits(resource, operations)
            found[resource] = _entries(options, operations)
        return found
    if options.producer and options.idempotent:
        cluster = Resource("cluster", CLUSTER_NAME, PATTERNS["literal"])
        found.setdefault(cluster, [])
    for resource in found:
        operations = []
        if options.producer:
            operations += {"topic": _PRODUCER, "transactional-id": (4, 8), "cluster": (12,)}.get(
                resource.kind, ()
            )
        if options.consumer:
            operations += {"topic": _CONSUMER, "group": (3,)}.get(resource.kind, ())
        found[resource] = _entries(options, list(dict.fromkeys(operations)))
    return {resource: entries for resource, entries in found.items() if entries}


def _check_fits(resource: Resource, operations: Sequence[int]) -> None:
    wrong = [number for number in operations if number not in _FITTING[resource.kind]]
    if wrong:
        kind = RESOURCE_NAMES[RESOURCES[resource.kind]]
        allowed = ", ".join(OPERATION_NAMES[number] for number in sorted(_FITTING[resource.kind]))
        raise UsageError(
            f"ResourceType {kind} only supports operations [{allowed}], not "
            f"{OPERATION_NAMES[wrong[0]]}"
        )


def perform(api: Api, options: Namespace) -> Output:
    """Perform the action of the options.

    Raises:
        UsageError: an operation that the type of resource does not have.
        ClusterError: the cluster refuses.
    """
    if options.add:
        return _add(api, options)
    return _remove(api, options) if options.remove else _list(api, options)


def _add(api: Api, options: Namespace) -> Output:
    wanted = _wanted(options)
    module = newest(CREATE_ACLS)
    creations = tuple(
        module.AclCreation(
            resource_type=RESOURCES[resource.kind],
            resource_name=resource.name,
            resource_pattern_type=resource.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for resource, entries in wanted.items()
        for entry in entries
    )
    for result in api.call(CREATE_ACLS, module.CreateAclsRequest(creations=creations)).results:
        check(result)
    if options.json:
        return Output(json_line({"added": _objects(wanted)}))
    return Output("".join(
        f"Adding ACLs for resource `{resource}`: \n \t"
        + "\n\t".join(map(str, entries)) + "\n\n"
        for resource, entries in wanted.items()
    ))  # fmt: skip


def _filters(options: Namespace) -> Iterator[tuple[Resource, Entry | None]]:
    """Yield what to remove: resources, with entries if principals are named on the command line."""
    is_narrow = bool(
        options.allow_principal or options.deny_principal or options.producer or options.consumer
    )
    if is_narrow:
        for resource, entries in _wanted(options).items():
            for entry in entries:
                yield resource, entry
        return
    for resource in _resources(options):
        yield resource, None


def _remove(api: Api, options: Namespace) -> Output:
    filters = list(_filters(options))
    if not options.force and not _is_confirmed(filters):
        return Output("")
    module = newest(DELETE_ACLS)
    rows = tuple(
        module.DeleteAclsFilter(
            resource_type_filter=RESOURCES[resource.kind],
            resource_name_filter=resource.name,
            pattern_type_filter=resource.pattern,
            principal_filter=None if entry is None else entry.principal,
            host_filter=None if entry is None else entry.host,
            operation=ANY if entry is None else entry.operation,
            permission_type=ANY if entry is None else entry.permission,
        )
        for resource, entry in filters
    )
    removed: dict[Resource, list[Entry]] = {}
    for result in api.call(DELETE_ACLS, module.DeleteAclsRequest(filters=rows)).filter_results:
        check(result)
        for row in result.matching_acls:
            check(row)
            resource = _resource(row.resource_type, row.resource_name, row.pattern_type)
            removed.setdefault(resource, []).append(_entry(row))
    return Output(json_line({"removed": _objects(removed)}) if options.json else "")


def _is_confirmed(filters: Sequence[tuple[Resource, Entry | None]]) -> bool:
    """Ask for confirmation on the terminal, as Kafka's tool does without --force."""
    for resource in dict.fromkeys(resource for resource, _ in filters):
        entries = [entry for other, entry in filters if other == resource and entry is not None]
        what = "ACLs: \n " + "\n".join(map(str, entries)) + " \n" if entries else "all ACLs"
        sys.stdout.write(
            f"Are you sure you want to delete {what} from resource filter `{resource}`? (y/n)\n"
        )
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() != "y":
            return False
    return True


def _list(api: Api, options: Namespace) -> Output:
    found: dict[Resource, list[Entry]] = {}
    wanted: list[Resource | None] = [*_resources(options)] or [None]
    for resource in wanted:
        for row in _described(api, resource):
            key = _resource(row.resource_type, row.resource_name, row.pattern_type)
            for acl in row.acls:
                entry = _entry(acl)
                is_wanted = not options.principal or entry.principal in options.principal
                if is_wanted and entry not in found.setdefault(key, []):
                    found[key].append(entry)
    found = {
        resource: sorted(found[resource], key=msgspec.structs.astuple)
        for resource in sorted(found, key=str)
        if found[resource]
    }
    if options.json:
        return Output(json_line({"acls": _objects(found)}))
    heading = ""
    if options.principal:
        heading = "".join(f"ACLs for principal `{p}`\n" for p in options.principal)
    return Output(heading + "".join(
        f"Current ACLs for resource `{resource}`:\n\t" + "\n\t".join(map(str, entries)) + "\n\n"
        for resource, entries in found.items()
    ))  # fmt: skip


def _described(api: Api, resource: Resource | None) -> Sequence[Any]:
    request = newest(DESCRIBE_ACLS).DescribeAclsRequest(
        resource_type_filter=ANY if resource is None else RESOURCES[resource.kind],
        resource_name_filter=None if resource is None else resource.name,
        pattern_type_filter=ANY if resource is None else resource.pattern,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    rows: Sequence[Any] = check(api.call(DESCRIBE_ACLS, request)).resources
    return rows


_KINDS: Final = {number: kind for kind, number in RESOURCES.items()}


def _resource(kind: Any, name: Any, pattern: Any) -> Resource:
    return Resource(_KINDS[int(kind)], str(name), int(pattern))


def _entry(row: Any) -> Entry:
    return Entry(str(row.principal), str(row.host), int(row.operation), int(row.permission_type))


def _objects(found: dict[Resource, list[Entry]]) -> list[dict[str, Any]]:
    return [
        {
            "resource_type": RESOURCE_NAMES[RESOURCES[resource.kind]],
            "name": resource.name,
            "pattern_type": PATTERN_NAMES[resource.pattern],
            "principal": entry.principal,
            "host": entry.host,
            "operation": OPERATION_NAMES.get(entry.operation, "UNKNOWN"),
            "permission": PERMISSION_NAMES.get(entry.permission, "UNKNOWN"),
        }
        for resource, entries in found.items()
        for entry in entries
    ]
