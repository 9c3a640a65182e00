"""Targets: server.properties and what it configures, parameters and headers of HTTP requests."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl

from inspection.negotiation import is_known, negotiated
from inspection.parameters import Place, read_parameters
from inspection.problem import Problem
from inspection.routes import ROUTES
from node.config import ConfigError, node_config
from node.properties import PropertiesError, format_properties, parse_properties
from tests.fuzz.engine import Target

ROOT = Path(__file__).resolve().parent.parent.parent
OFFERED = ("application/json", "application/msgpack")
GENERATED_KEYS = (
    "process.roles", "node.id", "controller.quorum.voters", "listeners", "log.dirs",
    "advertised.listeners", "listener.security.protocol.map", "controller.listener.names",
    "inter.broker.listener.name", "metadata.log.segment.bytes", "super.users",
    "max.connections.per.ip.overrides", "inspection.listener", "controller.quorum.fetch.timeout.ms",
)  # fmt: skip
NODE = (
    "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@h:9093,2@h:9094\n"
    "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://h:9092,CONTROLLER://h:9093\n"
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs=/a,/b\n"
    "inspection.listener=127.0.0.1:8080\ninter.broker.listener.name=PLAINTEXT\n"
    "max.connections.per.ip.overrides=127.0.0.1:5,127.0.0.2:7\n"
    "super.users=User:a;User:b\nmetadata.log.segment.bytes=8388608\n"
)


def _properties(data: bytes) -> dict[str, str]:
    return parse_properties(data.decode("utf-8"))


def _properties_again(found: dict[str, str], _data: bytes, _rng: Random) -> None:
    assert parse_properties(format_properties(found)) == found


def _config(data: bytes) -> Any:
    return node_config(_properties(data))


def _config_holds(config: Any, _data: bytes, _rng: Random) -> None:
    """What is accepted describes a node."""
    assert config.is_broker or config.is_controller
    assert config.log_dirs
    assert 0 <= config.node_id < 2**31
    assert all(0 <= endpoint.port < 2**16 for endpoint in config.listeners)


def _node(rng: Random) -> bytes:
    """A configuration that must be accepted: the same node with its lines in another order."""
    lines = NODE.splitlines()
    rng.shuffle(lines)
    return "\n".join(lines).encode()


@cache
def _examples() -> list[bytes]:
    escapes = b"# c\n! d\na\\:b : c\\u00e9 \\\n   d\nk=v\\=w\n\n e f\ng\r\nh=\\t\\n\\\\\r"
    every = "\n".join(f"{key}=1" for key in GENERATED_KEYS).encode()
    return [NODE.encode(), escapes, every]


# ---- HTTP --------------------------------------------------------------------------------------


def _parameters(data: bytes) -> dict[str, Any]:
    """Route number, then `path values?query#Accept#If-None-Match`."""
    route = ROUTES[data[0] % len(ROUTES)] if data else ROUTES[0]
    text = data[1:].decode("utf-8", errors="surrogateescape")
    path_text, _, rest = text.partition("?")
    query, _, headers = rest.partition("#")
    accept, _, etag = headers.partition("#")
    declared = [p for p in route.parameters if p.place is Place.PATH]
    texts = [*path_text.split("/"), *([""] * len(declared))]
    path = {p.name: text for p, text in zip(declared, texts, strict=False)}
    values = read_parameters(
        route.parameters, path, parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    )
    if accept:
        assert negotiated(accept, OFFERED) in OFFERED
    is_known('"1-2"', etag or None)
    return {"route": route, "values": values}


def _parameters_fit(found: dict[str, Any], _data: bytes, _rng: Random) -> None:
    """Every declared parameter has a value of its schema."""
    route, values = found["route"], found["values"]
    assert set(values) == {parameter.name for parameter in route.parameters}
    for parameter in route.parameters:
        value, schema = values[parameter.name], parameter.schema()
        if isinstance(value, int) and not isinstance(value, bool):
            assert schema["minimum"] <= value <= schema["maximum"]
        elif isinstance(value, str) and "enum" in schema:
            assert value in schema["enum"]


@cache
def _requests() -> list[bytes]:
    found = []
    for number, route in enumerate(ROUTES):
        query = "&".join(
            f"{parameter.name}=1"
            for parameter in route.parameters
            if parameter.place is Place.QUERY
        )
        accepts = "#text/html;q=0.5, application/*;q=0.1, */*;q=nan"
        found.append(bytes([number]) + f'1/name?{query}{accepts}#W/"1-2", *'.encode())
        found.append(bytes([number]) + b"1")
    return found


def targets() -> list[Target]:
    """All of this file."""
    texts = (PropertiesError, UnicodeDecodeError)
    return [
        Target("properties", _examples(), _properties, texts, _properties_again),
        Target(
            "server-properties", _examples(), _config, (*texts, ConfigError), _config_holds, _node,
            weight=0.5,
        ),
        Target("http-parameters", _requests(), _parameters, (Problem, ValueError), _parameters_fit),
    ]  # fmt: skip
