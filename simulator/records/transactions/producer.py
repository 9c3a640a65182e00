"""An application with a transactional id: its processes crash, are replaced, or live on."""

from collections.abc import Callable, Sequence
from typing import Final

from simulator.checks.partitions.transactions import TransactionChecks
from simulator.records.clients import Cluster
from simulator.records.transactions.session import Session, SessionRules

REPLACED_US: Final = 2_500_000
"""Mean time until a process is replaced."""
BACK_US: Final = 200_000
"""Mean time from the end of a process to the next one."""
NOTICED_SHARE: Final = 0.4
SILENT_SHARE: Final = 0.7
"""Share of the replaced that crash with their connections, or in silence; the others live on."""


class TransactionalProducer:
    """The processes of one transactional id, of which the newest one is meant to run.

    Args:
        cluster: of the transactional topic.
        rules: of the processes.
        checks: told what they do.
    """

    def __init__(self, cluster: Cluster, rules: SessionRules, checks: TransactionChecks) -> None:
        self._cluster = cluster
        self._rules = rules
        self._checks = checks
        self._rng = cluster.rng
        self._scheduler = cluster.scheduler
        self._sessions: list[Session] = []
        self._is_stopped = False

    @property
    def sessions(self) -> Sequence[Session]:
        """All processes, the newest last."""
        return self._sessions

    @property
    def acknowledged(self) -> int:
        """Number of values that were acknowledged."""
        return sum(each.acknowledged for each in self._sessions)

    @property
    def asked(self) -> int:
        """Number of requests."""
        return sum(each.asked for each in self._sessions)

    @property
    def answered(self) -> int:
        """Number of requests with a response."""
        return sum(each.answered for each in self._sessions)

    @property
    def is_idle(self) -> bool:
        """True if no process runs."""
        return all(each.is_over for each in self._sessions)

    def start(self) -> None:
        """Start the first process, and replace it now and then."""
        self._open()
        self._after(self._replace, REPLACED_US)

    def stop(self) -> None:
        """Let all processes end behind the transaction that they are in."""
        self._is_stopped = True
        for each in self._sessions:
            each.is_stopping = True

    def _after(self, act: Callable[[], None], mean_us: int) -> None:
        delay_us = 1_000 + int(self._rng.expovariate(1.0) * mean_us)
        self._scheduler.after(delay_us, lambda: None if self._is_stopped else act())

    def _open(self) -> None:
        number = len(self._sessions)
        session = Session(self._cluster, self._rules, number, self._checks, self._ended)
        self._sessions.append(session)
        session.start()

    def _ended(self, session: Session) -> None:
        if session is self._sessions[-1]:
            self._after(self._open_behind(session), BACK_US)

    def _open_behind(self, session: Session) -> Callable[[], None]:
        def act() -> None:
            if session is self._sessions[-1]:
                self._open()

        return act

    def _replace(self) -> None:
        session, drawn = self._sessions[-1], self._rng.random()
        if drawn < SILENT_SHARE and not session.is_over:
            self._checks.hit("process_crashed")
            session.crash(is_noticed=drawn < NOTICED_SHARE)
        elif not session.is_over:
            self._checks.hit("process_lives_on")
        self._after(self._open_behind(session), BACK_US)
        self._after(self._replace, REPLACED_US)
