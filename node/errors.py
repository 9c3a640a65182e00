"""What stops a node before it runs."""


class ConfigError(Exception):
    """A configuration value is refused; the text is one line for the person who wrote it."""

    @classmethod
    def invalid(cls, value: str, key: str, reason: str) -> "ConfigError":
        """Kafka's form of the message (org.apache.kafka.common.config.ConfigException)."""
        return cls(f"Invalid value {value} for configuration {key}: {reason}")


class StartError(Exception):
    """The node cannot start; the text is one line that names what is wrong."""
