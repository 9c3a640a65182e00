"""Notes of a run: lines of the trace, and faults, each before its effects."""

from collections.abc import Callable

from simulator.campaign.recording import Recording
from simulator.cluster.scheduler import Scheduler
from simulator.faults.decision import Decision
from simulator.faults.impact import Impact, fault_text
from simulator.faults.nemesis import Nemesis


class FaultNotes:
    """Passes notes on to trace and recording; a fault comes before the lines that it causes.

    Args:
        scheduler: gives the time.
        trace: called with the time in microseconds and the text of every line.
        recording: gets the faults.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        trace: Callable[[int, str], None] | None,
        recording: Recording | None,
    ) -> None:
        self._scheduler = scheduler
        self._trace = trace
        self._recording = recording
        self._held: list[str] | None = None
        """Lines since a fault began, until its impact is known."""

    @property
    def is_traced(self) -> bool:
        """True if notes are traced."""
        return self._trace is not None

    def note(self, text: str) -> None:
        """Trace a line."""
        if self._trace is None:
            return
        if self._held is not None:
            self._held.append(text)
        else:
            self._trace(self._scheduler.now_us, text)

    def listen_to(self, nemesis: Nemesis) -> None:
        """Take the faults of a nemesis."""
        nemesis.on_fault_begins = self._fault_begins
        nemesis.on_fault = self._fault_came

    def _fault_begins(self) -> None:
        """Hold all lines from now on until the impact of the fault is known."""
        self._held = []

    def _fault_came(self, decision: Decision, impact: Impact | None) -> None:
        """Trace a fault, then the lines that waited for it."""
        held, self._held = self._held or [], None
        for text in (fault_text(decision, impact), *held):
            self.note(text)
        if self._recording is not None:
            self._recording.struck(decision, impact)
