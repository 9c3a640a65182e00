"""The next operation of a client, drawn by what the answers so far say about the topics.

Names of which nothing is known are looked up rather than written, few writes contradict what is
known, and a node that did not answer is not asked for `LEFT_ALONE_US`.
"""

from random import Random
from typing import Final, NamedTuple

from simulator.campaign.draw import Settings
from simulator.cluster.requests import READS, TOPIC_WRITES, Operation

NAMES: Final = 12
"""Topic names are few, so that operations meet."""
REGISTER: Final = "register"
"""The topic whose config is written; nobody deletes it."""

LEFT_ALONE_US: Final = 4_000_000


def topic_name(number: int) -> str:
    """One of the names that clients use."""
    return f"topic-{number}"


class Choice(NamedTuple):
    """The next operation of a client."""

    kind: str
    name: str
    target: int
    value: str | None = None


class Mix(NamedTuple):
    """Shares of the kinds of operations, 0 to 1."""

    lookups: float
    register: float
    """Of all operations: those on the config of `REGISTER`."""
    against: float
    """Of the writes to topics: those that will be refused if the topics are as the answers say."""


def mix_of(settings: Settings) -> Mix:
    """Shares that the settings of a seed ask for."""
    percents = settings.lookup_percent, settings.register_percent, settings.against_percent
    return Mix(*(percent / 100 for percent in percents))


class Choices:
    """Draws operations from a stream of its own.

    Args:
        rng: the stream.
        targets: the nodes that may be asked.
        mix: shares of the kinds of operations.
    """

    def __init__(self, rng: Random, targets: tuple[int, ...], mix: Mix) -> None:
        self._rng = rng
        self._targets = targets
        self._mix = mix
        self._exists: dict[str, bool] = {}
        self._busy: dict[str, int] = {}
        self._left_alone: dict[int, int] = {}
        self._written = 0

    def draw(self, now_us: int) -> Choice:
        """Draw the next operation."""
        rng, mix = self._rng, self._mix
        target, is_lookup = self._target(now_us), rng.random() < mix.lookups
        is_register = rng.random() < mix.register
        name = topic_name(rng.randrange(NAMES))
        is_against = rng.random() < mix.against
        coin = rng.random() < 0.5
        if is_register:
            return self._on_register(target, is_lookup=is_lookup)
        if is_lookup:
            return Choice("exists", name, target)
        if not is_against:
            name = self._quiet(name)
        known = self._exists.get(name)
        is_delete = coin if known is None else known is not is_against
        return self._begun(Choice("delete" if is_delete else "create", name, target))

    def _on_register(self, target: int, *, is_lookup: bool) -> Choice:
        if not self._exists.get(REGISTER):
            return self._begun(Choice("create", REGISTER, target))
        if is_lookup:
            return Choice("read", REGISTER, target)
        self._written += 1
        return self._begun(Choice("write", REGISTER, target, str(self._written)))

    def _begun(self, choice: Choice) -> Choice:
        self._busy[choice.name] = self._busy.get(choice.name, 0) + 1
        return choice

    def _quiet(self, name: str) -> str:
        """First name from this one on without a write under way, preferably one of known state."""
        first = int(name.rpartition("-")[2])
        names = [topic_name((first + number) % NAMES) for number in range(NAMES)]
        free = [each for each in names if not self._busy.get(each)]
        known = [each for each in free if each in self._exists]
        return (known or free or names)[0]

    def _target(self, now_us: int) -> int:
        well = [each for each in self._targets if self._left_alone.get(each, 0) <= now_us]
        return self._rng.choice(well or self._targets)

    def ended(self, operation: Operation, now_us: int) -> None:
        """Learn from the outcome of an operation."""
        name = operation.name
        if operation.kind not in READS:
            self._busy[name] = max(0, self._busy.get(name, 0) - 1)
        if operation.error in ("TIMED_OUT", "CLOSED", "REFUSED"):
            self._left_alone[operation.target] = now_us + LEFT_ALONE_US
        if operation.kind == "exists" and operation.error is None:
            self._exists[name] = operation.topic_id is not None
        if operation.kind not in TOPIC_WRITES or operation.error == "REFUSED":
            return
        if operation.error is None:
            self._exists[name] = operation.kind == "create"
        elif operation.error == "topic_already_exists":
            self._exists[name] = True
        elif operation.error == "unknown_topic_or_partition":
            self._exists[name] = False
        else:
            self._exists.pop(name, None)
