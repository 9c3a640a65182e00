"""One consumer in a group: its member, its coordinator, its readers, its commits.

One request about its membership is under way at a time; commits go beside it. What it does while it
is paused waits until it is resumed: it knows nothing of the time that has passed, as a process that
was stopped. One that is killed does nothing any more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from simulator.checks.partitions.groups import Asked, Commit, GroupChecks
from simulator.groups import bodies
from simulator.groups.bodies import Membership, Request
from simulator.groups.classic_member import ClassicMember
from simulator.groups.consumer_member import ConsumerMember
from simulator.groups.next_step import UNAVAILABLE, Next, unexpected
from simulator.groups.reader import Reader
from simulator.groups.settings import HEARTBEAT_US
from simulator.records.clients import RETRIED, RETRY_US, Cluster, PartitionClient
from wire.errors import ErrorCode

COMMIT_US: Final = 350_000
OPEN: Final = frozenset({*UNAVAILABLE, *RETRIED, ErrorCode.unknown_server_error})
"""Errors of a commit that may be in the log nevertheless."""
REFUSED: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.stale_member_epoch,
        ErrorCode.rebalance_in_progress,
        ErrorCode.group_id_not_found,
    }
)
"""Errors of a commit that is in no log."""
STALE: Final = frozenset({*REFUSED, ErrorCode.unstable_offset_commit})
"""Errors of a fetch of offsets that is tried again."""

Member = ClassicMember | ConsumerMember


class GroupConsumer:
    """A consumer, from its start to its end.

    Args:
        cluster: with the topic that its group reads.
        host: its number; another consumer in its place may have the same.
        membership: in its group.
        make_member: makes its member when the id of the topic is known.
        checks: of all groups.
        on_dead: called when another client has its place.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        membership: Membership,
        make_member: Callable[[Any], Member],
        checks: GroupChecks,
        on_dead: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._host = host
        self._of = membership
        self._make_member = make_member
        self._checks = checks
        self._on_dead = on_dead
        self._client = PartitionClient(cluster, host, 0)
        self.member: Member | None = None
        self.readers: dict[int, Reader] = {}
        self._coordinator: int | None = None
        self._is_over = self._is_leaving = False
        self._is_asking = False
        self._held: list[Callable[[], None]] | None = None

    @property
    def waits(self) -> bool:
        """True while a request about its membership is under way."""
        return self._is_asking and not self._is_over

    @property
    def positions(self) -> list[tuple[int, int | None, int | None]]:
        """Partition, position and committed offset of each reader, ascending."""
        readers = sorted(self.readers.items(), key=lambda item: item[0])
        return [(number, reader.position, reader.committed) for number, reader in readers]

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Find the topic, then the coordinator, and join."""
        self._client.find_leader(lambda: self._when_awake(self._begin))

    def _begin(self) -> None:
        assert self._client.topic_id is not None, "a leader is known"
        self.member = self._make_member(self._client.topic_id)
        self._find()
        self._later(self._commit_all, COMMIT_US)

    def kill(self) -> None:
        """End without a word."""
        self._is_over = True
        self._stop_reading(frozenset())
        self._client.close()

    def leave(self) -> None:
        """Leave the group at the next chance, and end; without a coordinator just end."""
        if self._coordinator is None or self.member is None:
            self.kill()
            return
        self._is_leaving = True
        self._ask(self.member.leave_request(), lambda _: self.kill())

    def pause(self) -> None:
        """Do nothing until it is resumed."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Do what it would have done."""
        held, self._held = self._held or [], None
        for act in held:
            self._when_awake(act)

    def _when_awake(self, act: Callable[[], None]) -> None:
        if self._is_over:
            return
        if self._held is None:
            act()
        else:
            self._held.append(act)

    def _later(self, act: Callable[[], None], mean_us: int = RETRY_US) -> None:
        self._client.later(lambda: self._when_awake(act), mean_us)

    # ---- membership ----------------------------------------------------------------------------

    def _find(self) -> None:
        def answered(response: Any) -> None:
            row = None if response is None else response.coordinators[0]
            if row is None or row.error_code is not ErrorCode.none:
                self._later(self._find)
                return
            self._coordinator = int(row.node_id)
            self._go_on()

        request = bodies.find_coordinator(self._of.group_id)
        self._client.ask_any(
            request.api_key, request.body, lambda r: self._when_awake(lambda: answered(r))
        )

    def _ask(self, request: Request, answered: Callable[[Any], None]) -> None:
        assert self._coordinator is not None, "it was found"
        self._client.ask(
            self._coordinator,
            request.api_key,
            request.body,
            lambda response: self._when_awake(lambda: answered(response)),
        )

    def _go_on(self) -> None:
        member = self.member
        assert member is not None, "it has begun"
        if self._is_leaving or self._is_asking:
            return
        if member.revoking:
            self._commit(member.revoking, self._revoked)
            return
        assert self._coordinator is not None, "it was found"
        self._is_asking = True
        asked = self._checks.asking(self._of.group_id, self._coordinator)

        def answered(response: Any) -> None:
            self._is_asking = False
            step = member.answered(response)
            if response is not None and response.error_code is ErrorCode.none:
                self._note_granted(member, asked)
            self._on_answer(member, step)

        self._ask(member.request(), answered)

    def _revoked(self) -> None:
        assert self.member is not None, "it has begun"
        self.member.revoked()
        self._follow(self.member)
        self._go_on()

    def _note_granted(self, member: Member, asked: Asked) -> None:
        if member.granted is not None:
            self._checks.claimed(member.committer, member.granted, asked)

    def _on_answer(self, member: Member, step: Next) -> None:
        self._follow(member)
        match step:
            case Next.GO_ON:
                self._go_on()
            case Next.REST:
                self._later(self._go_on, HEARTBEAT_US)
            case Next.RETRY:
                self._later(self._go_on)
            case Next.FIND:
                self._later(self._find)
            case Next.DEAD:
                self.kill()
                self._on_dead()

    # ---- reading -------------------------------------------------------------------------------

    def _follow(self, member: Member) -> None:
        """Read what it owns, and nothing else."""
        self._stop_reading(member.owned)
        new = [number for number in sorted(member.owned) if number not in self.readers]
        for number in new:
            self.readers[number] = Reader(
                self._cluster,
                self._host,
                number,
                group_id=self._of.group_id,
                groups=self._checks,
                when_awake=self._when_awake,
            )
        if new:
            self._fetch_offsets({number: self.readers[number] for number in new})

    def _stop_reading(self, owned: frozenset[int]) -> None:
        for number in [number for number in self.readers if number not in owned]:
            self.readers.pop(number).end()

    def _fetch_offsets(self, readers: dict[int, Reader]) -> None:
        """Begin to read at the offsets of the group."""
        readers = {n: reader for n, reader in readers.items() if self.readers.get(n) is reader}
        if not readers:
            return
        assert self.member is not None, "it owns partitions"
        assert self._client.topic_id is not None, "it owns partitions"
        assert self._coordinator is not None, "it owns partitions"
        again = partial(self._fetch_offsets, readers)
        asked = self._checks.asking(self._of.group_id, self._coordinator)

        def answered(response: Any) -> None:
            group = None if response is None else response.groups[0]
            code = ErrorCode.request_timed_out if group is None else group.error_code
            if group is None or code is not ErrorCode.none:
                if code not in OPEN and code not in STALE:
                    raise unexpected(self._of.group_id, "fetches", code)
                self._later(again)
                return
            for row in group.topics[0].partitions:
                self._begin_at(row, readers[row.partition_index], asked)

        topic_id = self._client.topic_id
        self._ask(bodies.fetch_offsets(self.member.fetcher, topic_id, readers), answered)

    def _begin_at(self, row: Any, reader: Reader, asked: Asked) -> None:
        if row.error_code is not ErrorCode.none:
            self._later(partial(self._fetch_offsets, {reader.partition: reader}))
            return
        place = (self._of.group_id, reader.partition)
        self._checks.fetched(place, row.committed_offset, row.metadata or "", asked)
        if not reader.is_stopped:
            reader.begin(row.committed_offset)

    # ---- commits -------------------------------------------------------------------------------

    def _commit_all(self) -> None:
        if self.member is not None and self._coordinator is not None and not self._is_leaving:
            self._commit(self.member.owned, lambda: None)
        self._later(self._commit_all, COMMIT_US)

    def _commit(self, partitions: frozenset[int], then: Callable[[], None]) -> None:
        """Commit the positions of partitions that have moved, and go on."""
        readers = [r for n, r in sorted(self.readers.items()) if n in partitions]
        moved = {
            r.partition: r.position
            for r in readers
            if r.position is not None and r.position != r.committed
        }
        member = self.member
        if member is None or not moved:
            then()
            return
        assert self._client.topic_id is not None, "it reads"
        commit = self._checks.attempt(member.committer, moved)

        def answered(response: Any) -> None:
            rows = () if response is None else response.topics[0].partitions
            for row in rows:
                self._committed(commit, row.partition_index, ErrorCode(row.error_code))
            then()

        request = bodies.commit_offsets(
            commit.by, self._client.topic_id, moved, metadata=commit.metadata
        )
        self._ask(request, answered)

    def _committed(self, commit: Commit, partition: int, code: ErrorCode) -> None:
        if code is ErrorCode.none:
            self._checks.acknowledged(commit, partition)
            reader = self.readers.get(partition)
            if reader is not None:
                reader.committed = commit.offsets[partition]
        elif code in REFUSED:
            self._checks.refused(commit, partition)
        elif code not in OPEN:
            raise unexpected(self._of.group_id, "commits", code)
