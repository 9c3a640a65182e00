"""Targets: server.properties and what it configures, parameters and headers of HTTP requests."""

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from cli.admin.controller_properties import ControllerToAdd, controller_of
from cli.arguments import UsageError
from inspection.negotiation import accepts_gzip, is_known, negotiated, refused_expectation
from inspection.parameters import LONG_MAX, Parameter, Place, read_parameters
from inspection.problem import Problem
from inspection.routes import ROUTES, STREAM_PARAMETERS
from inspection.stream import start_offset
from node.configs.config import ConfigError, node_config
from node.configs.properties import PropertiesError, format_properties, parse_properties
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
    """Check that accepted properties describe a node."""
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


# ---- a controller as a voter, by its properties ------------------------------------------------


@cache
def _holder() -> TemporaryDirectory[str]:
    """A folder with a formatted log directory, `log`."""
    holder = TemporaryDirectory(prefix="kraftline-fuzz-")
    folder = Path(holder.name, "log")
    folder.mkdir()
    (folder / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=q80vMCWbTQqNtVLiwDrp-g\n"
    )
    return holder


def _controller(data: bytes) -> ControllerToAdd:
    path = Path(_holder().name, "server.properties")
    path.write_bytes(data)
    return controller_of(path)


def _controller_fits(found: ControllerToAdd, _data: bytes, _rng: Random) -> None:
    """Check that a voter read from server.properties fits into a request."""
    assert 0 <= found.node_id < 2**31
    assert len(found.directory_id) == 16
    assert found.endpoints
    for each in found.endpoints:
        assert each.listener.encode()
        assert each.host.encode()
        assert 0 <= each.port < 2**16


def _controllers() -> list[bytes]:
    own = NODE.replace("log.dirs=/a,/b", f"log.dirs={_holder().name}/log")
    advertised = "advertised.listeners=CONTROLLER://[::1]:1,OTHER://:65535\n"
    return [own.encode(), (own + advertised).encode(), (own + "node.id=2147483648\n").encode()]


# ---- HTTP --------------------------------------------------------------------------------------


RESOURCES = (
    *((route.path, route.parameters) for route in ROUTES),
    ("/v1/metadata/stream", STREAM_PARAMETERS),
    ("/metrics", ()),
)
COMMITTED_END = 1000
HEADERS = ("Accept", "If-None-Match", "Accept-Encoding", "Expect", "Last-Event-ID")


def _request(data: bytes) -> dict[str, Any]:
    """Number of the resource, then `path values?query`, then `#value` for each of HEADERS.

    A refusal goes on as it is when its body has been encoded.
    """
    _, declared = RESOURCES[data[0] % len(RESOURCES)] if data else RESOURCES[0]
    target, *values = data[1:].decode("utf-8", errors="surrogateescape").split("#")
    headers = dict(zip(HEADERS, values, strict=False))
    try:
        found = _read(declared, target, headers)
    except Problem as problem:
        msgspec.json.encode(problem.body)
        raise
    return {"declared": declared, "values": found}


def _read(declared: tuple[Parameter, ...], target: str, headers: dict[str, str]) -> dict[str, Any]:
    expectation = refused_expectation(headers.get("Expect") or "100-continue")
    if expectation is not None:
        raise expectation
    assert negotiated(headers.get("Accept"), OFFERED) in OFFERED
    accepts_gzip(headers.get("Accept-Encoding"))
    is_known('"1-2"', headers.get("If-None-Match"))
    path_text, _, query = target.partition("?")
    in_path = [parameter for parameter in declared if parameter.place is Place.PATH]
    texts = [*path_text.split("/"), *([""] * len(in_path))]
    path = {parameter.name: text for parameter, text in zip(in_path, texts, strict=False)}
    values = read_parameters(declared, path, parse_qsl(query, keep_blank_values=True))
    if declared is STREAM_PARAMETERS:
        start = start_offset(headers.get("Last-Event-ID"), values["from"], COMMITTED_END)
        assert 0 <= start <= LONG_MAX
    return values


def _parameters_fit(found: dict[str, Any], _data: bytes, _rng: Random) -> None:
    """Every declared parameter has a value of its schema."""
    declared, values = found["declared"], found["values"]
    assert set(values) == {parameter.name for parameter in declared}
    for parameter in declared:
        value, schema = values[parameter.name], parameter.schema()
        if isinstance(value, int) and not isinstance(value, bool):
            assert schema["minimum"] <= value <= schema["maximum"]
        elif isinstance(value, str) and "enum" in schema:
            assert value in schema["enum"]


@cache
def _requests() -> list[bytes]:
    accepts = "#text/html;q=0.5, application/*;q=0.1, */*;q=nan"
    others = '#W/"1-2", *#br, gzip;q=0.1#100-Continue#17'
    found = []
    for number, (_, declared) in enumerate(RESOURCES):
        query = "&".join(f"{p.name}=1" for p in declared if p.place is Place.QUERY)
        found.append(bytes([number]) + f"1/name?{query}{accepts}{others}".encode())
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
        Target(
            "controller-properties", _controllers(), _controller, (UsageError,), _controller_fits,
            weight=0.2,
        ),
        Target("http-parameters", _requests(), _request, (Problem,), _parameters_fit),
    ]  # fmt: skip
