"""Topic configurations that kafka-topics refuses before it sends anything.

The controller checks again, with the same definitions; the check here only comes earlier.
(apache/kafka: storage/.../LogConfig.java, validate)
"""

from cli.connect import ClusterError


def check_config(name: str, value: str) -> None:
    """Refuse a config that Kafka's own tool refuses without a request to the cluster.

    Raises:
        ClusterError: no such name, or not a value of its type.
    """
    from metadata.config_schema import topic_configs  # noqa: PLC0415  # usage must not wait for it
    from metadata.config_values import parse_value  # noqa: PLC0415

    definition = topic_configs().get(name)
    if definition is None:
        raise ClusterError(f"Unknown topic config name: {name}")
    _, error = parse_value(definition, value)
    if error is not None:
        raise ClusterError(error)
