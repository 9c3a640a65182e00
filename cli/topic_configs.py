"""Topic configurations that kafka-topics refuses before it sends anything.

The controller checks again, by the same definitions; here it is only sooner.
(apache/kafka: storage/.../LogConfig.java, validate)
"""

from cli.client import ClusterError
from metadata.config_schema import topic_configs
from metadata.config_values import parse_value


def check_config(name: str, value: str) -> None:
    """Refuses what Kafka's own tool refuses without asking the cluster.

    Raises:
        ClusterError: no such name, or not a value of its type.
    """
    definition = topic_configs().get(name)
    if definition is None:
        raise ClusterError(f"Unknown topic config name: {name}")
    _, error = parse_value(definition, value)
    if error is not None:
        raise ClusterError(error)
