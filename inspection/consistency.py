"""`?consistency=linearizable`: an answer that holds all that was acknowledged before the request.

Local, the default, is the image of the node as it is: behind the leader's by a fetch or two, or by
a fault. A linearizable answer is the leader's, once a majority of voters has confirmed it
(raft/fetching/read_index.py); another node redirects there. What a view has beside the metadata,
such as the replicas and groups of one node, is that node's alone and no part of the promise.
"""

from http import HTTPStatus
from typing import Final

from inspection.parameters import Choice, Place
from inspection.problem import Problem
from inspection.running_node import RunningNode
from raft.fetching.reads import ReadRefusal

LOCAL: Final = "local"
LINEARIZABLE: Final = "linearizable"
OFFSET_HEADER: Final = "Kraftline-Metadata-Offset"
"""Header of the offset below which all metadata is in the answer."""
RETRY_S: Final = 1
CONSISTENCY: Final = Choice(
    name="consistency",
    place=Place.QUERY,
    description="local: the metadata of this node, the default; linearizable: of the leader (307 "
    "to it), with all that was acknowledged before the request, or 503",
    choices=(LOCAL, LINEARIZABLE),
)


async def wait_for(node: RunningNode, consistency: str | None, target: str) -> None:
    """Return once the image of this node is as consistent as asked for.

    Args:
        node: the node.
        consistency: value of the parameter; None is `local`.
        target: path and query of the request.

    Raises:
        Problem: 307 to the leader, or 503 with the reason.
    """
    if consistency != LINEARIZABLE:
        return
    refusal = await node.confirm_read()
    if refusal is ReadRefusal.NOT_LEADER:
        raise _elsewhere(node, target)
    if refusal is not None:
        raise _unavailable(refusal.value)


def _elsewhere(node: RunningNode, target: str) -> Problem:
    """Build the redirection to the leader, or the refusal while its API is not known."""
    leader_id = node.core.leader.leader_id
    if leader_id is None:
        return _unavailable("no leader is known")
    if leader_id == node.config.node_id:
        return _unavailable("this node was elected meanwhile")
    address = node.inspection_address(leader_id)
    if address is None:
        return _unavailable(
            f"leader {leader_id} has registered no inspection API: it is Kafka's, it has no "
            "inspection.listener, or its registration is on its way"
        )
    host, port = address
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    own = node.config.inspection_listener
    if own is not None and address == (own.host, own.port):
        return _unavailable(
            f"leader {leader_id} has registered {at}, which is this node's own address: its "
            "inspection.listener needs a host that reaches it from elsewhere"
        )
    return Problem(
        HTTPStatus.TEMPORARY_REDIRECT,
        f"node {leader_id} leads the quorum",
        headers={"Location": f"http://{at}{target}"},
    )


def _unavailable(reason: str) -> Problem:
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"no linearizable read: {reason}",
        parameter=CONSISTENCY.name,
        value=LINEARIZABLE,
        headers={"Retry-After": str(RETRY_S)},
    )
