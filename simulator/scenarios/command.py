"""One command line of a scenario: a word, arguments, options `name=value`."""

import msgspec


class ScenarioError(Exception):
    """A scenario file says something that its environment does not understand."""


class Command(msgspec.Struct, kw_only=True):
    """A parsed command; it notes what was read, so that a misspelt option is an error."""

    name: str
    arguments: tuple[str, ...]
    options: dict[str, str]
    is_quiet: bool = False
    used: set[str] = msgspec.field(default_factory=set)

    def argument(self, index: int, meaning: str) -> str:
        """Read an argument that must be there."""
        if index >= len(self.arguments):
            raise ScenarioError(f"{self.name}: argument {index + 1} ({meaning}) is missing")
        self.used.add(self.arguments[index])
        return self.arguments[index]

    def number(self, index: int, meaning: str) -> int:
        """Read an argument that is a number."""
        return to_int(self.argument(index, meaning))

    def rest(self, index: int) -> tuple[str, ...]:
        """Read the arguments from `index` on."""
        self.used.update(self.arguments[index:])
        return self.arguments[index:]

    def has(self, word: str) -> bool:
        """Read a bare word; True if it was given."""
        self.used.add(word)
        return word in self.arguments

    def option(self, name: str, default: str) -> str:
        """Read the text of an option."""
        self.used.add(name)
        return self.options.get(name, default)

    def number_option(self, name: str, default: int) -> int:
        """Read the number of an option."""
        return to_int(self.option(name, str(default)))

    def numbers(self, name: str, default: str = "") -> tuple[int, ...]:
        """Read the numbers of an option like `voters=1,2,3`."""
        return to_ints(self.option(name, default))

    def check_all_used(self) -> None:
        """Refuse words and options that were not read."""
        unknown = sorted((set(self.arguments) | set(self.options)) - self.used)
        if unknown:
            raise ScenarioError(f"{self.name} does not know {', '.join(unknown)}")


def to_int(text: str) -> int:
    """Read a number, or raise an error that names it."""
    try:
        return int(text)
    except ValueError:
        raise ScenarioError(f"{text!r} is not a number") from None


def to_ints(text: str) -> tuple[int, ...]:
    """Read numbers separated by commas; `-` and nothing are none."""
    return tuple(to_int(part) for part in text.split(",")) if text not in ("", "-") else ()


def parse_command(line: str) -> Command:
    """Read a command line."""
    words = line.split()
    is_quiet = words[0] == "quietly"
    words = words[1:] if is_quiet else words
    if not words:
        raise ScenarioError("quietly needs a command")
    options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    arguments = tuple(word for word in words[1:] if "=" not in word)
    return Command(name=words[0], arguments=arguments, options=options, is_quiet=is_quiet)
