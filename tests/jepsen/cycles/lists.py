"""Histories of lists, made by hand."""

from jepsen.cycles import checker
from jepsen.linearizability import Event, History


class Made:
    """Events in order; the clock ticks with each. Micro-operations: "a+1", "a=12", "a?"."""

    def __init__(self):
        self.events = []

    def _event(self, process, kind, f, value, extra):
        number = len(self.events)
        self.events.append(
            Event(process=process, type=kind, f=f, value=value, index=number, time=10 * number,
                  extra=extra)
        )  # fmt: skip
        return number

    def call(self, process, *words, **extra):
        return self._event(process, "invoke", "txn", [asked(word) for word in words], extra)

    def end(self, at, kind, *words, **extra):
        invoked = self.events[at]
        value = [told(word) for word in words] if words else invoked.value
        self._event(invoked.process, kind, "txn", value, {**invoked.extra, **extra})

    def txn(self, process, *words, kind="ok", offsets=None, **extra):
        """A transaction that nothing is concurrent with."""
        found = {} if offsets is None else {"offsets": offsets}
        self.end(self.call(process, *words, **extra), kind, *words, **found)

    def together(self, *transactions, kind="ok"):
        """Transactions that are all concurrent, of the processes 0, 1, ..."""
        calls = [self.call(process, *words) for process, words in enumerate(transactions)]
        for at, words in zip(calls, transactions, strict=True):
            self.end(at, kind, *words)

    def read(self, key, values, node=1, offsets=None):
        """A final read."""
        extra = {"key": key, "node": node}
        at = self._event(99, "invoke", "read", None, extra)
        found = {} if offsets is None else {"offsets": offsets}
        value = [int(digit) for digit in values]
        self._event(99, "ok", "read", value, {**self.events[at].extra, **found})

    def history(self):
        return History(self.events)

    def kinds(self, permitted=checker.PERMITTED):
        """Kinds of the findings, and of what is permitted."""
        judged = checker.judged(self.history(), permitted)
        return [finding.kind for finding in judged.findings], dict(judged.permitted)


def asked(word):
    if word[1] == "+":
        return ["append", word[0], int(word[2:])]
    return ["r", word[0], None]


def told(word):
    if word[1] == "=":
        return ["r", word[0], [int(digit) for digit in word[2:]]]
    return asked(word)
