"""What is told of a run while it runs: lines of the trace, and faults, each before its effects."""

from collections.abc import Callable

from simulator.campaign.recording import Recording
from simulator.cluster.scheduler import Scheduler
from simulator.faults.decision import Decision
from simulator.faults.impact import Impact, fault_text
from simulator.faults.nemesis import Nemesis


class FaultNotes:
    """Passes on what is told of a run; a fault comes before what it brings about.

    Args:
        scheduler: knows the time.
        trace: told of everything, with its time in microseconds.
        recording: told of faults.
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
        """What was told since a fault began and before it is known what that does."""

    @property
    def is_traced(self) -> bool:
        """Whether anybody hears of what is noted."""
        return self._trace is not None

    def note(self, text: str) -> None:
        """One thing."""
        if self._trace is None:
            return
        if self._held is not None:
            self._held.append(text)
        else:
            self._trace(self._scheduler.now_us, text)

    def listen_to(self, nemesis: Nemesis) -> None:
        """Be told of its faults."""
        nemesis.on_fault_begins = self._fault_begins
        nemesis.on_fault = self._fault_came

    def _fault_begins(self) -> None:
        """What is told from now on waits for the fault."""
        self._held = []

    def _fault_came(self, decision: Decision, impact: Impact | None) -> None:
        """A fault, and what waited for it."""
        held, self._held = self._held or [], None
        for text in (fault_text(decision, impact), *held):
            self.note(text)
        if self._recording is not None:
            self._recording.faults.append((decision, impact))
