"""Configuration by environment variables, as in the apache/kafka container image.

    KAFKA_NODE_ID=1                      node.id=1
    KAFKA_LISTENER_SECURITY_PROTOCOL_MAP listener.security.protocol.map
    KAFKA_A__B                           a_b    (two underscores are one)
    KAFKA_A___B                          a-b    (three are a dash)
    CLUSTER_ID                           format unformatted log directories for this cluster

Variables are stronger than a mounted file. There are no variables `..._FILE` in that image.
(apache/kafka: core/src/main/scala/kafka/docker/KafkaDockerWrapper.scala,
docker/resources/common-scripts/configure, KIP-975; Kafka 4.3)
"""

import re
from collections.abc import Mapping
from typing import Final

from node.errors import ConfigError

PREFIX: Final = "KAFKA_"
CLUSTER_ID: Final = "CLUSTER_ID"
ROLES: Final = "KAFKA_PROCESS_ROLES"
LISTENERS: Final = "KAFKA_LISTENERS"
ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"
DEFAULT_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The image's default, for a container without CLUSTER_ID."""
NOT_PROPERTIES: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_DEBUG",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_CMD_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_PORT",
    }
)
"""Variables for the JVM and Kafka's scripts, not properties."""
DEFAULTS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/tmp/kraft-combined-logs",  # noqa: S108 - Kafka's own default
}
"""Properties without any file or variable: one combined node."""


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of KAFKA_* variables, by key.

    A variable without a name after the prefix is ignored.

    Raises:
        ConfigError: as `with_listeners`.
    """
    found = {}
    configured = with_listeners(environment)
    for variable in sorted(configured):
        if variable.startswith(PREFIX) and variable not in NOT_PROPERTIES:
            key = property_key(variable)
            if key:
                found[key] = configured[variable]
    return found


def with_listeners(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as the image completes them before it reads them as properties.

    A node that is no mere controller listens where it advertises, on all interfaces, unless
    KAFKA_LISTENERS says where. A mere controller advertises nothing; an empty variable, as compose
    sets a missing one, is none.

    Raises:
        ConfigError: a mere controller has KAFKA_ADVERTISED_LISTENERS.
    """
    found = dict(environment)
    advertised = found.get(ADVERTISED)
    if found.get(ROLES) == "controller":
        if advertised:
            raise ConfigError(f"{ADVERTISED} is not supported on a KRaft controller.")
        found.pop(ADVERTISED, None)
    elif advertised and not found.get(LISTENERS):
        found[LISTENERS] = re.sub("://[^:]*:", "://0.0.0.0:", advertised)
    return found


def property_key(variable: str) -> str:
    """Return the key of a variable, such as `node.id` for KAFKA_NODE_ID."""
    assert variable.startswith(PREFIX), f"{variable=}"
    dotted = variable.replace(PREFIX, "").lower().replace("_", ".")  # each one, as the image does
    return dotted.replace("...", "-").replace("..", "_")


def effective(file: Mapping[str, str] | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a container of the image runs with.

    Args:
        file: a mounted server.properties, which variables override. None: there is none, and the
            defaults apply only if no variable is set at all.
        environment: all variables of the process.

    Raises:
        ConfigError: as `with_listeners`.
    """
    given = properties_of(environment)
    if file is not None:
        return {**file, **given}
    return given or dict(DEFAULTS)
