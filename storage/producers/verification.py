"""Verification of a partition: is it part of the transaction that a batch claims to be of?

A leader appends the first transactional batch of a producer only after the coordinator has said
that the partition is in its transaction, else records of a client that was given up would wait for
a marker for ever. The first request begins the verification and gets a guard; the append that comes
with the guard is taken. A guard is made once: an answer that comes when the transaction was ended
meanwhile, by a marker, finds another one or none.

    INV-VS-1  a producer has one verification, until an appended batch or a marker ends it

The lowest sequence is remembered, too: while its batch is not verified, a batch behind it is out of
order, also at a leader that knows nothing of the producer.

apache/kafka: storage/.../log/{VerificationStateEntry,VerificationGuard}.java; KIP-890
"""

from wire.batches.batch import BatchHeader


class VerificationGuard:
    """A token of one verification; it is equal to itself alone."""

    __slots__ = ()


class Verification:
    """A verification that has begun.

    `lowest_sequence` is the smallest of the batches of `producer_epoch` that asked for it.
    `supports_epoch_bump` is true for a client of transaction.version 2, which begins each
    transaction with a new epoch.
    """

    __slots__ = (
        "guard",
        "lowest_sequence",
        "producer_epoch",
        "started_ms",
        "supports_epoch_bump",
    )

    def __init__(self, header: BatchHeader, started_ms: int, *, supports_epoch_bump: bool) -> None:
        assert header.is_transactional, f"{header=}"
        assert header.producer_id >= 0, f"{header=}"
        self.guard = VerificationGuard()
        self.started_ms = started_ms
        self.supports_epoch_bump = supports_epoch_bump
        self.producer_epoch = header.producer_epoch
        self.lowest_sequence = header.base_sequence

    def note(self, header: BatchHeader) -> None:
        """Take another batch that asks for it: a lower sequence, or a newer epoch with its own."""
        epoch, sequence = header.producer_epoch, header.base_sequence
        is_lower = epoch == self.producer_epoch and sequence < self.lowest_sequence
        if is_lower or epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = epoch, sequence


class Verifications:
    """The verifications that have begun at one partition, by producer id."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        """The number of producers that wait for one."""
        return len(self._by_producer)

    def of(self, producer_id: int) -> Verification | None:
        """The verification of a producer, None if none has begun."""
        return self._by_producer.get(producer_id)

    def begin(
        self, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """The guard of the producer of a batch; a new one unless its verification has begun."""
        known = self._by_producer.get(header.producer_id)
        if known is None:
            known = Verification(header, now_ms, supports_epoch_bump=supports_epoch_bump)
            self._by_producer[header.producer_id] = known
        else:
            known.note(header)
        return known.guard

    def end_with(self, header: BatchHeader) -> None:
        """End that of the producer of an appended batch: its transaction is open, or over.

        A marker of a client with epoch bumps leaves one of its own epoch: that is of the next
        transaction, which the bump began.
        """
        known = self._by_producer.get(header.producer_id)
        if known is None or not header.is_transactional:
            return
        is_of_next = header.is_control and header.producer_epoch == known.producer_epoch
        if not (known.supports_epoch_bump and is_of_next):
            del self._by_producer[header.producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget those that began so long ago."""
        assert expiration_ms > 0, f"{expiration_ms=}"
        for producer_id, each in list(self._by_producer.items()):
            if now_ms - each.started_ms >= expiration_ms:
                del self._by_producer[producer_id]
