"""Command lines of the records tools: first lines of refusals in the words of Kafka's parser."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Final, NoReturn

from typing_extensions import override

from cli.arguments import Parser

REQUIRED: Final = 'Missing required argument "[{}]"'
_UNKNOWN: Final = "unrecognized arguments: "


class ToolParser(Parser):
    """A parser that names unknown flags and missing ones as Kafka's tools do."""

    @override
    def error(self, message: str) -> NoReturn:
        if message.startswith(_UNKNOWN):
            word = message.removeprefix(_UNKNOWN).split(" ")[0].partition("=")[0]
            message = f"{word.lstrip('-') or word} is not a recognized option"
        super().error(message)

    def parse_tool(self, arguments: Sequence[str], *required: str) -> Namespace:
        """Parse, and refuse a command line without the required flags (without dashes)."""
        options: Namespace = self.parse_args(arguments)
        self.require(options, *required)
        return options

    def require(self, options: Namespace, *names: str) -> None:
        """Refuse a command line without the named flags."""
        for name in names:
            if getattr(options, name.replace("-", "_")) is None:
                self.error(REQUIRED.format(name))
