"""An operator asks the leader for a transfer of the leadership (raft/elections/transfer.py)."""

from datetime import timedelta
from typing import Any, Final

from typing_extensions import override

from simulator.checks.raft.leadership import epoch_of, leads
from simulator.cluster.client_end import ClientEnd
from simulator.cluster.machine import Machine
from simulator.faults.decision import Decision
from simulator.faults.fault import Reach
from simulator.faults.impact import AT_ONCE_US, Impact
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import METADATA_TOPIC_NAME

OPERATOR_HOST: Final = 999
"""Host of whoever asks; no fault strikes its connection."""
TIMEOUT: Final = timedelta(seconds=30)
MARK_OF_ANSWER: Final[dict[ErrorCode, str]] = {
    ErrorCode.none: "leadership_transferred",
    ErrorCode.request_timed_out: "transfer_given_up",
}


class _Operator(ClientEnd):
    """The connection of one request, to the controller listener of the leader."""

    def __init__(self, reach: Reach, leader: Machine, replicas: tuple[int, ...]) -> None:
        self._probes = reach.probes
        super().__init__(
            OPERATOR_HOST,
            leader.id,
            reach.network,
            lambda end: reach.network.connect(
                end, leader.id, lambda pipe: leader.accept(pipe, "CONTROLLER")
            ),
        )
        self.send(ALTER_PARTITION_REASSIGNMENTS, _body(replicas))

    @override
    def answered(self, correlation_id: int, body: Any) -> None:
        code = body.responses[0].partitions[0].error_code
        if code in MARK_OF_ANSWER:
            self._probes.hit(MARK_OF_ANSWER[code])
        self.disconnect()

    def closed(self, *, refused: bool) -> None:
        """The leader is gone; nobody knows what became of the request."""
        del refused
        self.is_closed = True


def _body(replicas: tuple[int, ...]) -> Any:
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "request")
    partition = new.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = new.ReassignableTopic(name=METADATA_TOPIC_NAME, partitions=(partition,))
    return new.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT, allow_replication_factor_change=False, topics=(topic,)
    )


def transfer(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
    """Ask the leader to hand over to a target that is a voter, else to any other voter."""
    leading = [m for m in reach.machines.values() if m.kernel is not None and leads(m)]
    if not leading:
        return None
    leader = max(leading, key=epoch_of)
    assert leader.kernel is not None, "it leads"
    voters = leader.kernel.core.voter_ids
    others = [number for number in voters if number != leader.id]
    if not others:
        return None
    wanted = [machine.id for machine in machines if machine.id in others]
    target = wanted[0] if wanted else decision.chance.choice(others)
    replicas = (target, *[number for number in voters if number != target])
    _Operator(reach, leader, replicas)
    return Impact(nodes=(leader.id,), how=f"to {target}", length_us=AT_ONCE_US)
