"""The listener and voter keys of `server.properties`: parsing, and the rules between them.

Listener names are converted to upper case, as in Kafka. Only the security protocol PLAINTEXT is
supported; a listener with another one is refused, and never served unprotected instead.
"""

import re
from collections.abc import Mapping
from typing import Final

from kernel.config import Voter
from network.connection_limits import address_limits
from node.errors import ConfigError, shortened
from wire.types import Endpoint, NodeId

PORT_MAX: Final = 65535
NODE_ID_MAX: Final = 2**31 - 1
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_LISTENERS: Final = "PLAINTEXT://:9092"
LISTENERS_KEY: Final = "listeners"
ADVERTISED_KEY: Final = "advertised.listeners"
PROTOCOL_MAP_KEY: Final = "listener.security.protocol.map"
VOTERS_KEY: Final = "controller.quorum.voters"
BOOTSTRAP_KEY: Final = "controller.quorum.bootstrap.servers"
INSPECTION_KEY: Final = "inspection.listener"
ADDRESS_LIMITS_KEY: Final = "max.connections.per.ip.overrides"
# apache/kafka: clients/.../utils/Utils.java and server/.../EndPoint.scala uriParseExp
LISTENER_PATTERN: Final = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,19})")
SERVER_PATTERN: Final = re.compile(r"\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]{1,19})")
VOTER_PATTERN: Final = re.compile(r"(-?[0-9]{1,19})@\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]{1,19})")


def inspection_listener(value: str) -> Endpoint | None:
    """Parse `HOST:PORT`, or `PORT` for loopback only; None if the value is empty.

    Raises:
        ConfigError: another form, or a port outside 1 to 65535.
    """
    if not value:
        return None
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(PORT_MAX))
    if not is_number or not 1 <= int(port) <= PORT_MAX:
        reason = f"expected HOST:PORT or PORT with a port from 1 to {PORT_MAX}"
        raise ConfigError.invalid(value, INSPECTION_KEY, reason)
    return Endpoint("HTTP", host, int(port))


def split_list(value: str) -> tuple[str, ...]:
    """Split a comma-separated value; blanks around entries and empty entries are dropped."""
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())


def parse_voters(value: str) -> tuple[Voter, ...]:
    """Parse `id@host:port,...` into voters sorted by id; empty for an empty value.

    Raises:
        ConfigError: an entry of another form, or a duplicate id or address.
    """
    voters: list[Voter] = []
    for entry in split_list(value):
        match = VOTER_PATTERN.fullmatch(entry)
        if match is None:
            reason = f"`{entry}` is not in the form `{{id}}@{{host}}:{{port}}`"
            raise ConfigError.invalid(value, VOTERS_KEY, reason)
        voter_id, port = int(match[1]), int(match[3])
        if not 0 <= voter_id <= NODE_ID_MAX or not 1 <= port <= PORT_MAX:
            reason = f"`{entry}`: the id must be at least 0 and the port between 1 and {PORT_MAX}"
            raise ConfigError.invalid(value, VOTERS_KEY, reason)
        voters.append(Voter(id=NodeId(voter_id), host=match[2], port=port))
    if len({voter.id for voter in voters}) != len(voters):
        raise ConfigError.invalid(value, VOTERS_KEY, "a voter id is listed twice")
    # 0.0.0.0 is Kafka's placeholder for "not known", so it may occur more than once.
    known = [(voter.host, voter.port) for voter in voters if voter.host != "0.0.0.0"]  # noqa: S104
    if len(set(known)) != len(known):
        raise ConfigError.invalid(value, VOTERS_KEY, "two voters have the same address")
    return tuple(sorted(voters, key=lambda voter: voter.id))


def parse_bootstrap_servers(value: str) -> tuple[tuple[str, int], ...]:
    """Parse `host:port,...` of controllers, in the order given; empty for an empty value.

    Raises:
        ConfigError: an entry of another form.
    """
    servers: list[tuple[str, int]] = []
    for entry in split_list(value):
        match = SERVER_PATTERN.fullmatch(entry)
        if match is None or not 1 <= int(match[2]) <= PORT_MAX:
            what = "name" if match is None and ":" not in entry else "port"
            raise ConfigError(
                f"Failed to parse host {what} from {shortened(entry)} for the configuration "
                f"{BOOTSTRAP_KEY}. "
                'Each entry should be in the form "{host}:{port}"'
            )
        servers.append((match[1], int(match[2])))
    return tuple(servers)


def parse_address_limits(value: str) -> tuple[tuple[str, int], ...]:
    """Parse `max.connections.per.ip.overrides` as `address_limits`.

    Raises:
        ConfigError: where that raises.
    """
    try:
        return address_limits(value)
    except ValueError as error:
        raise ConfigError.invalid(value, ADDRESS_LIMITS_KEY, str(error)) from error


def check_protocols(
    given: Mapping[str, str], controller_names: tuple[str, ...]
) -> Mapping[str, str]:
    """Return the security protocol by listener name, for every name that may be used.

    Without an explicit map a controller listener is PLAINTEXT, as in Kafka (KIP-833).
    """
    explicit = given.get(PROTOCOL_MAP_KEY)
    if explicit is None:
        defaults = {protocol: protocol for protocol in PROTOCOLS}
        return {**dict.fromkeys(controller_names, "PLAINTEXT"), **defaults}
    protocols: dict[str, str] = {}
    for entry in split_list(explicit):
        name, _, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not name or protocol not in PROTOCOLS:
            reason = (
                f"`{entry}` is not in the form NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}"
            )
            raise ConfigError.invalid(explicit, PROTOCOL_MAP_KEY, reason)
        if name in protocols:
            raise ConfigError.invalid(explicit, PROTOCOL_MAP_KEY, f"listener {name} occurs twice")
        protocols[name] = protocol
    for name in controller_names:
        if name not in protocols:
            raise ConfigError(
                f"Controller listener with name {name} defined in controller.listener.names "
                f"not found in {PROTOCOL_MAP_KEY}  (an explicit security mapping for each "
                f"controller listener is required if {PROTOCOL_MAP_KEY} is non-empty)"
            )
    return protocols


def bound_listeners(
    given: Mapping[str, str],
    controller_names: tuple[str, ...],
    protocols: Mapping[str, str],
    roles: tuple[str, ...],
) -> tuple[Endpoint, ...]:
    """Return the listeners to bind, in the order of the file.

    Raises:
        ConfigError: a malformed entry, a duplicate name or port, a missing or unsupported protocol,
            or a controller without its listener.
    """
    value = given.get(LISTENERS_KEY) or DEFAULT_LISTENERS
    endpoints = _parse_listeners(value, LISTENERS_KEY)
    ports = [endpoint.port for endpoint in endpoints if endpoint.port != 0]
    if len(set(ports)) != len(ports):
        raise ConfigError(f"Each listener must have a different port, {LISTENERS_KEY}: {value}")
    for name in (*(endpoint.listener for endpoint in endpoints), *controller_names):
        if name not in protocols:
            raise ConfigError(
                f"Error creating broker listeners from '{value}': "
                f"No security protocol defined for listener {name}"
                f" in {PROTOCOL_MAP_KEY} or controller.listener.names"
            )
        if protocols[name] != "PLAINTEXT":
            reason = f"listener {name} uses {protocols[name]}, and only PLAINTEXT is supported"
            raise ConfigError.invalid(
                given.get(PROTOCOL_MAP_KEY, value),
                PROTOCOL_MAP_KEY if PROTOCOL_MAP_KEY in given else LISTENERS_KEY,
                reason,
            )
    names = {endpoint.listener for endpoint in endpoints}
    if "controller" in roles and not names.issuperset(controller_names):
        raise ConfigError(
            f"controller.listener.names={','.join(controller_names)} must only contain values "
            f"appearing in the '{LISTENERS_KEY}' configuration when running the KRaft controller "
            f"role: {value}"
        )
    return endpoints


def advertised_listeners(
    given: Mapping[str, str],
    bound: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    host_name: str,
) -> tuple[Endpoint, ...]:
    """Return the advertised listeners: `advertised.listeners`, completed by bound ones.

    A controller listener missing in `advertised.listeners` is advertised as bound; a missing broker
    listener is not advertised at all if another one is listed (KafkaConfig, 3.9+).
    """
    value = given.get(ADVERTISED_KEY)
    explicit = _parse_listeners(value, ADVERTISED_KEY) if value else ()
    names = {endpoint.listener for endpoint in bound}
    for endpoint in explicit:
        if endpoint.listener not in names:
            raise ConfigError(
                f"{ADVERTISED_KEY} listener names must be equal to or a subset of the ones defined "
                f"in {LISTENERS_KEY}. Found {endpoint.listener}. The valid options based on the "
                f"current configuration are {','.join(sorted(names))}"
            )
        if endpoint.host == "0.0.0.0":  # noqa: S104
            raise ConfigError(
                f"{ADVERTISED_KEY} cannot use the nonroutable meta-address 0.0.0.0. "
                "Use a routable IP address."
            )
    named = {endpoint.listener for endpoint in explicit}
    advertises_brokers = any(name not in controller_names for name in named)
    rest = [
        endpoint
        for endpoint in bound
        if endpoint.listener not in named
        and (endpoint.listener in controller_names or not advertises_brokers)
    ]
    for endpoint in rest:
        if endpoint.host == "0.0.0.0" and endpoint.listener not in controller_names:  # noqa: S104
            raise ConfigError(
                f"{ADVERTISED_KEY} cannot use the nonroutable meta-address 0.0.0.0. "
                "Use a routable IP address."
            )
    return tuple(
        Endpoint(
            listener=endpoint.listener,
            host=endpoint.host if endpoint.host not in ("", "0.0.0.0") else host_name,  # noqa: S104
            port=endpoint.port,
        )
        for endpoint in (*explicit, *rest)
    )


def check_roles_of_listeners(
    bound: tuple[Endpoint, ...],
    advertised: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    roles: tuple[str, ...],
) -> None:
    """Check that each role has its listeners, and that each listener has a role."""
    bound_names = [endpoint.listener for endpoint in bound]
    serves_brokers = any(endpoint.listener not in controller_names for endpoint in advertised)
    if "broker" not in roles and serves_brokers:
        raise ConfigError(
            f"The {LISTENERS_KEY} config must only contain KRaft controller listeners from "
            f"controller.listener.names when process.roles=controller: {','.join(bound_names)}"
        )
    if "broker" in roles and not serves_brokers:
        raise ConfigError(
            "There must be at least one broker advertised listener. Perhaps all listeners appear "
            f"in controller.listener.names? {LISTENERS_KEY}: {','.join(bound_names)}"
        )
    if "controller" not in roles and any(name in controller_names for name in bound_names):
        raise ConfigError(
            f"The {LISTENERS_KEY} config must not contain KRaft controller listeners from "
            "controller.listener.names when process.roles contains just the broker role: "
            f"{','.join(bound_names)}"
        )


def inter_broker_listener(
    given: Mapping[str, str],
    advertised: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    roles: tuple[str, ...],
) -> str | None:
    """Return the name of the inter-broker listener; None without the broker role."""
    if "broker" not in roles:
        return None
    key, protocol_key = "inter.broker.listener.name", "security.inter.broker.protocol"
    if key in given and protocol_key in given:
        raise ConfigError(f"Only one of {key} and {protocol_key} should be set.")
    name = (given.get(key) or given.get(protocol_key) or "PLAINTEXT").upper()
    options = [e.listener for e in advertised if e.listener not in controller_names]
    if name not in options:
        used = protocol_key if given.get(protocol_key) else key
        raise ConfigError(
            f"{used} must be a listener name defined in {ADVERTISED_KEY}: {name}. The valid "
            f"options based on currently configured listeners are {','.join(options)}"
        )
    return name


def _parse_listeners(value: str, key: str) -> tuple[Endpoint, ...]:
    """Parse `NAME://host:port,...`; names become upper case."""
    endpoints: list[Endpoint] = []
    for entry in split_list(value):
        match = LISTENER_PATTERN.fullmatch(entry)
        if match is None:
            reason = f"Unable to parse {entry} to a broker endpoint (NAME://host:port)"
            raise ConfigError.invalid(value, key, reason)
        port = int(match[3])
        if not 0 <= port <= PORT_MAX:
            reason = f"the port of {entry} must be between 0 and {PORT_MAX}"
            raise ConfigError.invalid(value, key, reason)
        endpoints.append(Endpoint(listener=match[1].upper(), host=match[2], port=port))
    if not endpoints:
        raise ConfigError.invalid(value, key, "at least one listener must be named")
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"Each listener must have a different name, {key}: {value}")
    return tuple(endpoints)
