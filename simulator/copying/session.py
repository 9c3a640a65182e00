"""One process that copies: what its member has read is a transaction, with the offsets behind it.

An older client asks its coordinator for the partition of offsets first; a newer one sends the
offsets at once (KIP-890). A transaction whose offsets the coordinator of the group refuses is
aborted, and the member reads again from what is committed.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from typing_extensions import override

from simulator.checks.partitions.groups import Commit
from simulator.checks.partitions.transactions import Outcome, TransactionChecks, Written
from simulator.checks.violation import Violation
from simulator.copying.bodies import add_offsets, commit_in_transaction
from simulator.groups.bodies import GROUP
from simulator.groups.settings import GROUPED
from simulator.records.clients import Cluster
from simulator.records.transactions.lane import CoordinatorClient
from simulator.records.transactions.session import Session, SessionRules
from wire.api_keys import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from wire.errors import ErrorCode

REFUSED: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_server_error,
    }
)
"""Errors of offsets in a transaction behind which it is aborted."""

ABORTED_SHARE: Final = 0.2
"""Share of transactions that are aborted behind their offsets."""
LEFT_SHARE: Final = 0.1
"""Share of those that are left until their time is over, and committed then."""
HELD_SHARE: Final = 0.4
"""Share of the others that stay open for a while."""
STALLED_SHARE: Final = 0.15
STALLED_US: Final = 5_000_000
"""Share of transactions whose process stalls behind its writes, and for how long at most: longer
than the session of its member, which does not know then that others have its partitions."""

Work = Mapping[int, range]
"""Offsets to be copied, by partition; the end of each is committed."""


class Source(Protocol):
    """The member whose records are copied."""

    def when_awake(self, act: Callable[[], None]) -> None:
        """Do something, unless it is paused: then when it goes on."""

    def stall(self, length_us: int) -> None:
        """Pause for a while."""

    def take(self) -> Work:
        """Offsets that it has read and nobody has copied; empty for none."""

    def attempt(self, work: Work, written: Written) -> Commit | None:
        """The commit of what was copied; None if it does not own all of it any more."""

    def offsets_taken(self) -> None:
        """Note that the coordinator has the offsets: the end is the transaction's alone."""

    def committed(self, commit: Commit) -> None:
        """Note that a transaction is committed."""

    def rewind(self) -> None:
        """Read again from what is committed."""


class CopySession(Session):
    """One process.

    Args:
        cluster: of the topic that is written to.
        rules: of the transactional id.
        number: of the process.
        checks: told what it does and is told.
        ended: called once, when it ends by itself.
        group_id: of its member.
        source: its member.
        is_calm: says if the run comes to its rest: then it stalls no more, and holds nothing open.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: SessionRules,
        number: int,
        checks: TransactionChecks,
        ended: Callable[[Session], None],
        *,
        group_id: str,
        source: Source,
        is_calm: Callable[[], bool],
    ) -> None:
        super().__init__(cluster, rules, number, checks, ended)
        self._group_id = group_id
        self._group = CoordinatorClient(
            cluster, rules.host, group_id, is_old=rules.is_old, key_type=GROUP
        )
        self._source = source
        self.is_calm = is_calm
        self._work: Work = {}
        self._commit: Commit | None = None

    @override
    def crash(self, *, is_noticed: bool) -> None:
        super().crash(is_noticed=is_noticed)
        self._group.is_stopped = True
        if is_noticed:
            self._group.close()

    def _when_awake(self, act: Callable[[], None]) -> None:
        self._source.when_awake(self._coordinator.when_running(act))

    # ---- a transaction -------------------------------------------------------------------------

    @override
    def _begin(self) -> None:
        self._settle()
        self._when_awake(self._take)

    def _take(self) -> None:
        self._work = self._source.take()
        if not self._work:
            self._later(self._begin)
            return
        self._transactions += 1
        self._written = self._checks.begin(self._label())
        self._added.clear()
        filled = [number for number in sorted(self._work) if self._work[number]]
        self._rounds = [filled] if filled else []
        self._go_on()

    @override
    def _new_values(self, number: int) -> tuple[bytes, ...]:
        """Copies of what was read; each says of what, behind what makes it unique."""
        head = (self._rules.host, self._number, self._values)
        offsets = self._work.get(number, range(0))
        if not offsets:  # one that is fenced writes to all partitions
            return (b"%d:%d:%d:late" % head,)
        return tuple(b"%d:%d:%d:%d:%d" % (*head, number, offset) for offset in offsets)

    # ---- its offsets ---------------------------------------------------------------------------

    @override
    def _finish(self) -> None:
        if not self.is_calm() and self._rng.random() < STALLED_SHARE:
            self._checks.hit("copy_stalled")
            self._source.stall(self._rng.randrange(STALLED_US))
        self._when_awake(self._send_offsets)

    def _send_offsets(self) -> None:
        assert self._written is not None, "a transaction has begun"
        commit = self._source.attempt(self._work, self._written)
        if commit is None:
            self._failed()
            return
        if not self._rules.is_old:
            self._commit_offsets(commit)
            return
        body = add_offsets(self._rules.transactional_id, self.producer, self._group_id)

        def done(code: ErrorCode, _: Any, __: int) -> None:
            if code is ErrorCode.none:
                self._checks.hit("copied_with_offsets_added")
                self._commit_offsets(commit)
            else:
                self._failed()

        self._coordinator.ask_until(ADD_OFFSETS_TO_TXN, body, lambda r: r.error_code, done)

    def _commit_offsets(self, commit: Commit) -> None:
        body = commit_in_transaction(
            self._rules.transactional_id, self.producer, commit, GROUPED.name
        )

        def done(code: ErrorCode, _: Any, tries: int) -> None:
            # What an older client has sent before may come behind the end of this transaction,
            # into the next one of the same epoch: it takes the next epoch.
            is_sure = tries == 1 or not self._rules.is_old
            if code is ErrorCode.none and is_sure:
                self._commit = commit
                self._source.offsets_taken()
                self._end_some_time()
                return
            if code is not ErrorCode.none and code not in REFUSED:
                raise Violation("D6", f"{self._label()}: offsets are answered {code.name}")
            self._checks.hit("copy_refused_by_group")
            self._failed()

        self._group.ask_until(TXN_OFFSET_COMMIT, body, _first_code, done)

    def _end_some_time(self) -> None:
        """End at once, or later: until then nobody else may read behind what was copied."""
        if self.is_calm():
            self._end(is_commit=True)
            return
        timeout_us, drawn = self._rules.timeout_ms * 1_000, self._rng.random()
        end = partial(self._end, is_commit=drawn >= ABORTED_SHARE)
        delay_us = 1
        if drawn >= 1 - LEFT_SHARE:
            delay_us += timeout_us + self._rng.randrange(timeout_us)
        elif self._rng.random() < HELD_SHARE:
            delay_us += self._rng.randrange(timeout_us)
        self._scheduler.after(delay_us, lambda: self._when_awake(end))

    # ---- its end -------------------------------------------------------------------------------

    @override
    def _next(self, response: Any) -> None:
        self._settle()
        super()._next(response)

    def _settle(self) -> None:
        """Tell the member of the end of the last transaction, if that is not done."""
        written, self._written = self._written, None
        if written is None:
            return
        if written.outcome is Outcome.COMMITTED:
            assert self._commit is not None, "its offsets were taken"
            self._checks.hit("copied")
            self._source.committed(self._commit)
        else:
            self._checks.hit("copy_rewound")
            self._source.rewind()


def _first_code(response: Any) -> ErrorCode:
    """The first error of a TxnOffsetCommit."""
    codes = [row.error_code for topic in response.topics for row in topic.partitions]
    first: ErrorCode = next((code for code in codes if code is not ErrorCode.none), codes[0])
    return first
