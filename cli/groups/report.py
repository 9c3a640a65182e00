"""Standard output and standard error of a command about groups, as it goes on."""

from typing import Any

from cli.connect import json_line


class Report:
    """Lines that were said; with `--json` only the object, and errors on standard error."""

    def __init__(self, *, is_json: bool) -> None:
        """Nothing is said."""
        self.is_json = is_json
        self._out: list[str] = []
        self._err: list[str] = []
        self._errors: list[str] = []

    @property
    def out(self) -> str:
        """For standard output."""
        return "".join(self._out)

    @property
    def err(self) -> str:
        """For standard error."""
        return "".join(self._err)

    def say(self, text: str) -> None:
        """Lines for people."""
        if not self.is_json:
            self._out.append(text)

    def notice(self, text: str) -> None:
        """Lines on standard error for people."""
        if not self.is_json:
            self._err.append(text)

    def error(self, text: str) -> None:
        """Something failed: standard output as in Kafka's tool, with `--json` in the object."""
        self._errors.append(text)
        self.say(f"\nError: {text}\n")

    def tell(self, **fields: Any) -> None:
        """The object of `--json`, with the errors so far."""
        if self.is_json:
            self._out.append(json_line({**fields, "errors": self._errors}))
