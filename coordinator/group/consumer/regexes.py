"""Regular expressions that members subscribe: their syntax, and the topics that match them.

The syntax is that of RE2, as Kafka's, whose matching takes no more than linear time; an expression
must match the whole name of a topic. Topics that the caller may not describe do not match.
(apache/kafka: TopicRegexResolver, Utils.throwIfRegularExpressionIsInvalid; KIP-848)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import re2

from coordinator.group.consumer.group import ResolvedRegex
from wire.errors import ApiError, ErrorCode

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""Shortest time between two resolutions of a group's expressions."""

NAMES_PER_STEP: Final = 500
"""Topics that one step looks at: well below a millisecond with a few expressions."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False

_DESCRIPTIONS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""Descriptions of RE2/J for those of RE2 that it has in other words."""


def why_invalid(regex: str) -> str | None:
    """The reason why an expression is invalid, in the words of RE2/J; None if it is valid."""
    try:
        re2.compile(regex, _OPTIONS)
    except re2.error as error:
        reason: str = error.args[0].decode(errors="replace").split(": ", 1)[0]
        return _DESCRIPTIONS.get(reason, reason)
    return None


def regex_error(regex: str) -> ApiError | None:
    """INVALID_REGULAR_EXPRESSION with the reason, None for a valid expression."""
    why = why_invalid(regex)
    if why is None:
        return None
    return ApiError(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}.",
    )


class Resolution:
    """The search for the topics of a group's expressions, some names at a time."""

    def __init__(
        self,
        regexes: Iterable[str],
        topic_names: Sequence[str],
        *,
        version: int,
        wall_ms: int,
        may_describe: Callable[[str], bool],
    ) -> None:
        """Begin a search of one image.

        Args:
            regexes: valid expressions; one that is not matches nothing.
            topic_names: of all topics of the image.
            version: offset of the last record of the image.
            wall_ms: instant of the beginning.
            may_describe: the caller's permission for the topic with a name.
        """
        self._patterns = {
            regex: re2.compile(regex, _OPTIONS)
            for regex in sorted(set(regexes))
            if regex_error(regex) is None
        }
        self._found: dict[str, list[str]] = {regex: [] for regex in sorted(set(regexes))}
        self._names = iter(topic_names)
        self._version = version
        self._wall_ms = wall_ms
        self._may_describe = may_describe

    def step(self) -> bool:
        """Look at some more names; True if none is left."""
        names = list(islice(self._names, NAMES_PER_STEP))
        for name in names:
            matching = [
                regex for regex, pattern in self._patterns.items() if pattern.fullmatch(name)
            ]
            if matching and self._may_describe(name):
                for regex in matching:
                    self._found[regex].append(name)
        return len(names) < NAMES_PER_STEP

    def result(self) -> Mapping[str, ResolvedRegex]:
        """The topics of each expression among the names that were looked at."""
        return {
            regex: ResolvedRegex(tuple(sorted(names)), self._version, self._wall_ms)
            for regex, names in self._found.items()
        }
