"""Histories of append-log, made by hand, and changes of them."""

import msgspec

from jepsen.linearizability import Event, History

KEY = "log-a-0"


class Made:
    """Events in order; the clock ticks with each."""

    def __init__(self):
        self.events = []

    def _event(self, process, kind, f, value, extra, error=None):
        number = len(self.events)
        self.events.append(
            Event(
                process=process, type=kind, f=f, value=value, index=number, time=10 * number,
                error=error, extra=extra,
            )
        )  # fmt: skip
        return number

    def call(self, process, f, value, key=KEY, **extra):
        return self._event(process, "invoke", f, value, {"key": key, **extra})

    def end(self, at, kind, value, error=None, **extra):
        invoked = self.events[at]
        self._event(invoked.process, kind, invoked.f, value, {**invoked.extra, **extra}, error)

    def append(self, process, value, offset, epoch=1, key=KEY):
        self.end(self.call(process, "append", value, key), "ok", [value, offset], epoch=epoch)

    def read(self, values, node=1, key=KEY, epochs=((0, 1),), **extra):
        at = self.call(99, "read", None, key, node=node)
        self.end(at, "ok", list(values), epochs=[list(run) for run in epochs], **extra)

    def fetch(self, start, values, node=1, key=KEY, epochs=()):
        at = self.call(98, "fetch", start, key, node=node)
        self.end(at, "ok", list(values), epochs=[list(run) for run in epochs])

    def history(self):
        return History(self.events)


def good():
    """Six values on one partition and one on another, of two epochs, read from two nodes."""
    made = Made()
    for value in range(4):
        made.append(value % 2, value, value)
    made.fetch(0, [0, 1], epochs=[[0, 1]])
    made.append(0, 4, 4, epoch=2)
    made.append(1, 5, 5, epoch=2)
    made.append(0, 100, 0, key="log-b-3")
    made.fetch(2, [2, 3, 4], node=2, epochs=[[2, 1], [4, 2]])
    for node in (1, 2):
        made.read(range(6), node, epochs=[(0, 1), (4, 2)])
        made.read([100], node, key="log-b-3")
    return made


def changed(made, change, *, f="read", key=KEY, node=None):
    """The history with the values of ok completions changed."""
    events = []
    for event in made.events:
        is_meant = event.f == f and event.type == "ok" and event.extra["key"] == key
        if is_meant and node in (None, event.extra.get("node")):
            event = msgspec.structs.replace(event, value=change(list(event.value)))  # noqa: PLW2901
        events.append(event)
    return History(events)
