"""Errors that stop a node before it runs."""

from typing import Final

VALUE_CHARACTERS_MAX: Final = 80
LINE_CHARACTERS_MAX: Final = 480


def one_line(text: str) -> str:
    """Return the text with unprintable characters escaped, truncated to a readable length."""
    printable = text if text.isprintable() else "".join(map(_printable, text))
    return shortened(printable, LINE_CHARACTERS_MAX)


def shortened(text: str, characters_max: int = VALUE_CHARACTERS_MAX) -> str:
    """Return a value for a message, truncated if it is too long."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


class ConfigError(Exception):
    """A configuration value is refused; the text is one line for the operator."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    @classmethod
    def invalid(cls, value: str, key: str, reason: str) -> "ConfigError":
        """Make an error with Kafka's message (org.apache.kafka.common.config.ConfigException)."""
        return cls(f"Invalid value {shortened(value)} for configuration {key}: {reason}")


class StartError(Exception):
    """The node cannot start; the text is one line that names the reason."""
