"""What stops a node before it runs."""

from typing import Final

VALUE_CHARACTERS_MAX: Final = 80
LINE_CHARACTERS_MAX: Final = 480


def one_line(text: str) -> str:
    """The text with what a terminal cannot print escaped, cut where it is too long to be read."""
    printable = text if text.isprintable() else "".join(map(_printable, text))
    return shortened(printable, LINE_CHARACTERS_MAX)


def shortened(text: str, characters_max: int = VALUE_CHARACTERS_MAX) -> str:
    """A value for a message; of a huge one the beginning."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


class ConfigError(Exception):
    """A configuration value is refused; the text is one line for the person who wrote it."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    @classmethod
    def invalid(cls, value: str, key: str, reason: str) -> "ConfigError":
        """Kafka's form of the message (org.apache.kafka.common.config.ConfigException)."""
        return cls(f"Invalid value {shortened(value)} for configuration {key}: {reason}")


class StartError(Exception):
    """The node cannot start; the text is one line that names what is wrong."""
