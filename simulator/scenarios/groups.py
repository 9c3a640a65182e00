"""Commands of scenarios about groups: clients with names, each of which asks by hand.

A client remembers its member id, its epoch or generation and what it was given; options say
otherwise, as a zombie does. Member ids are shown as names of clients. All are of group `g` and read
topic `t`. A coordinator's topic is made by `topic __consumer_offsets 101,102`.

Each command is described at its method.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec

from coordinator.group.consumer.client_protocol import assignment_bytes, assignment_of
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.image import NO_OFFSETS, GroupsImage
from coordinator.records.group import GroupMetadataValue
from coordinator.runtime.shard import ShardState
from simulator.checks.partitions.group_images import shards_of
from simulator.groups import bodies
from simulator.groups.bodies import Committer, Membership, Request
from simulator.records.client_link import ClientLink
from simulator.scenarios.command import Command, ScenarioError, to_ints
from simulator.scenarios.records_cluster import CLIENT_HOST, ScenarioWorld
from wire.errors import ErrorCode

GROUP: Final = "g"
TOPIC: Final = "t"
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 20_000
ANSWER_US: Final = 120_000_000
NO_OFFSET: Final = -1
RESERVED: Final = ("group", "instance", "id", "generation", "epoch", "owned")
"""Options that are no client and no partition."""


class Client(msgspec.Struct):
    """A client by its name, and what it knows."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = 0
    given: tuple[int, ...] = ()


class GroupClients:
    """The clients of a scenario.

    Args:
        world: gives the cluster.
    """

    def __init__(self, world: Callable[[], ScenarioWorld]) -> None:
        self._world = world
        self._clients: dict[str, Client] = {}
        self._names: dict[str, str] = {}
        """Name of a client by its member id."""
        self._links: dict[tuple[int, str, int], ClientLink] = {}
        self.commands: dict[str, Callable[[Command], list[str] | None]] = {
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "beat": self._beat,
            "commit": self._commit,
            "offsets": self._offsets,
            "groups": self._groups,
        }

    # ---- clients -------------------------------------------------------------------------------

    def _client(self, command: Command) -> tuple[Client, int]:
        """The client and the node that a command names first."""
        name, node = command.argument(0, "client"), command.number(1, "node")
        self._world().node(node)
        client = self._clients.setdefault(name, Client(name))
        instance_id = command.option("instance", "")
        if instance_id:
            client.instance_id = instance_id
        return client, node

    def _ask(
        self, client: Client, node: int, request: Request, answered: Callable[[Any], None]
    ) -> None:
        """Ask on a connection of its own for each client and API: none waits for another."""
        world, key = self._world(), (node, client.name, request.api_key)
        link = self._links.get(key)
        if link is None or link.is_closed:
            cluster = world.cluster
            link = ClientLink(CLIENT_HOST, node, world.network, world.scheduler, cluster.connect)
            self._links[key] = link

        def told(response: Any) -> None:
            if response is None:
                world.say(f"=> {NAMES[request.api_key]} {client.name}: no answer")
            else:
                answered(response)

        link.request(request.api_key, request.body, told, ANSWER_US)

    def _membership(self, client: Client) -> Membership:
        return Membership(GROUP, TOPIC, SESSION_MS, REBALANCE_MS, client.instance_id)

    def _name(self, member_id: str) -> str:
        return self._names.get(member_id, member_id or "-")

    def _say(self, what: str, client: Client, code: ErrorCode, text: str = "") -> None:
        shown = (text or "ok") if code is ErrorCode.none else code.name
        self._world().say(f"=> {what} {client.name}: {shown}")

    # ---- the classic protocol ------------------------------------------------------------------

    def _join(self, command: Command) -> None:
        """`join A 101 [instance=i] [id=none]`: JoinGroup, again with the id that it is told."""
        client, node = self._client(command)
        if command.option("id", "") == "none":
            client.member_id = ""
        request = bodies.join_group(self._membership(client), client.member_id)

        def answered(response: Any) -> None:
            if response.member_id:
                client.member_id = response.member_id
                self._names[response.member_id] = client.name
            if response.error_code is ErrorCode.member_id_required:
                again = bodies.join_group(self._membership(client), client.member_id)
                self._ask(client, node, again, answered)
                return
            if response.error_code is ErrorCode.none:
                client.epoch = response.generation_id
            text = f"generation={response.generation_id} leader={self._name(response.leader)}"
            members = ",".join(sorted(self._name(row.member_id) for row in response.members))
            text += f" members={members}" if members else ""
            self._say("join", client, response.error_code, text)

        self._ask(client, node, request, answered)

    def _sync(self, command: Command) -> None:
        """`sync A 101 [A=0,1 B=2]`: SyncGroup; partitions of members by the leader."""
        client, node = self._client(command)
        assignments = {
            self._member(name).member_id: assignment_bytes({TOPIC: to_ints(numbers)}, 0)
            for name, numbers in _named(command).items()
        }
        request = bodies.sync_group(
            self._membership(client), client.member_id, client.epoch, assignments
        )

        def answered(response: Any) -> None:
            if response.error_code is ErrorCode.none:
                partitions, _ = assignment_of(bytes(response.assignment))
                client.given = tuple(partitions.get(TOPIC, ()))
            self._say("sync", client, response.error_code, _partitions_text(client.given))

        self._ask(client, node, request, answered)

    def _member(self, name: str) -> Client:
        if name not in self._clients:
            raise ScenarioError(f"no client {name!r}")
        return self._clients[name]

    def _heartbeat(self, command: Command) -> None:
        """`heartbeat A 101 [generation=1]`: Heartbeat."""
        client, node = self._client(command)
        generation = command.number_option("generation", client.epoch)
        request = bodies.heartbeat(self._membership(client), client.member_id, generation)
        self._ask(
            client, node, request, lambda response: self._say("heartbeat", client, _code(response))
        )

    def _leave(self, command: Command) -> None:
        """`leave A 101`: LeaveGroup."""
        client, node = self._client(command)
        request = bodies.leave_group(self._membership(client), client.member_id)

        def answered(response: Any) -> None:
            codes = [response.error_code, *(row.error_code for row in response.members)]
            self._say("leave", client, max(codes, key=lambda code: code is not ErrorCode.none))

        self._ask(client, node, request, answered)

    # ---- the protocol of KIP-848 ---------------------------------------------------------------

    def _beat(self, command: Command) -> None:
        """`beat A 101 [epoch=0] [owned=0,1]`: ConsumerGroupHeartbeat; of epoch -1 it leaves.

        A client owns what it was given, unless it says otherwise.
        """
        client, node = self._client(command)
        client.member_id = client.name
        self._names[client.name] = client.name
        epoch = command.number_option("epoch", client.epoch)
        owned = command.numbers("owned", ",".join(map(str, client.given)))
        if epoch == 0:
            owned = ()
        request = bodies.consumer_heartbeat(
            self._membership(client),
            client.member_id,
            epoch,
            is_full=epoch == 0,
            owned={self._topic_id(): owned} if owned else {},
        )

        def answered(response: Any) -> None:
            if response.error_code is ErrorCode.none:
                client.epoch = response.member_epoch
                if response.assignment is not None:
                    rows = response.assignment.topic_partitions
                    client.given = tuple(sorted(each for row in rows for each in row.partitions))
            text = f"epoch={response.member_epoch} {_partitions_text(client.given)}"
            self._say("beat", client, response.error_code, text)

        self._ask(client, node, request, answered)

    def _topic_id(self) -> UUID:
        return UUID(bytes=bytes(self._world().key_of(f"{TOPIC}-0")[0]))

    # ---- offsets -------------------------------------------------------------------------------

    def _commit(self, command: Command) -> None:
        """`commit A 101 0=5 1=7 [generation=1] [id=none]`: OffsetCommit; offsets by partition.

        `epoch` is another word for the generation; without an id it is nobody's.
        """
        client, node = self._client(command)
        is_member = command.option("id", "") != "none"
        epoch = command.number_option("epoch", client.epoch if is_member else -1)
        generation = command.number_option("generation", epoch)
        instance_id = client.instance_id if is_member else None
        by = Committer(GROUP, client.member_id if is_member else "", generation, instance_id)
        offsets = {int(number): int(offset) for number, offset in _named(command).items()}
        request = bodies.commit_offsets(by, self._topic_id(), offsets, "")

        def answered(response: Any) -> None:
            codes = {row.error_code for row in response.topics[0].partitions}
            self._say("commit", client, *codes)

        self._ask(client, node, request, answered)

    def _offsets(self, command: Command) -> None:
        """`offsets 101 0,1`: OffsetFetch of partitions by a client that is no member."""
        node, numbers = command.number(0, "node"), to_ints(command.argument(1, "partitions"))
        request = bodies.fetch_offsets(GROUP, self._topic_id(), numbers)
        client = Client(GROUP)

        def answered(response: Any) -> None:
            (group,) = response.groups
            rows = group.topics[0].partitions if group.topics else ()
            text = " ".join(_offset_text(row) for row in rows)
            self._say("offsets", client, group.error_code, text)

        self._ask(client, node, request, answered)

    # ---- looking -------------------------------------------------------------------------------

    def _groups(self, command: Command) -> list[str]:
        """`groups 101`: what the node has committed of the groups that it coordinates."""
        number = command.number(0, "node")
        lines = []
        for partition, shard in shards_of(self._world().node(number)):
            if shard.state is not ShardState.ACTIVE:
                lines.append(f"{number} __consumer_offsets-{partition} {shard.state.value}")
                continue
            lines += [f"{number} {line}" for line in self._group_lines(shard.committed)]
        return lines or [f"{number} coordinates nothing"]

    def _group_lines(self, image: GroupsImage) -> list[str]:
        lines = []
        for group_id in sorted(image.groups):
            group, words = image.groups[group_id], [group_id]
            if isinstance(group, GroupMetadataValue):
                words.append(f"classic generation={group.generation}")
                words += sorted(self._classic_text(row) for row in group.members)
            elif isinstance(group, ConsumerGroup):
                words.append(f"consumer epoch={group.group_epoch}")
                words += sorted(self._member_text(each) for each in group.members.values())
            else:
                words.append("simple")
            offsets = image.offsets.get(group_id, NO_OFFSETS)
            words += [f"{at[0]}-{at[1]}={entry.offset}" for at, entry in sorted(offsets.items())]
            lines.append(" ".join(words))
        return lines

    def _classic_text(self, row: Any) -> str:
        partitions, _ = assignment_of(bytes(row.assignment))
        return f"{self._name(row.member_id)}({_partitions_text(partitions.get(TOPIC, ()))})"

    def _member_text(self, member: Any) -> str:
        numbers = tuple(sorted(part for epochs in member.assigned.values() for part in epochs))
        kind = "classic " if member.uses_classic_protocol else ""
        text = f"{kind}epoch={member.member_epoch} {_partitions_text(numbers)}"
        return f"{self._name(member.member_id)}({text})"


NAMES: Final = {8: "commit", 9: "offsets", 11: "join", 12: "heartbeat", 13: "leave", 14: "sync",
                68: "beat"}  # fmt: skip
"""Commands by the API that they ask."""


def _named(command: Command) -> dict[str, str]:
    """Options that are clients or partitions."""
    names = [name for name in command.options if name not in RESERVED]
    return {name: command.option(name, "") for name in names}


def _code(response: Any) -> ErrorCode:
    return ErrorCode(response.error_code)


def _partitions_text(numbers: tuple[int, ...]) -> str:
    return "has " + (",".join(map(str, numbers)) or "nothing")


def _offset_text(row: Any) -> str:
    if row.error_code is not ErrorCode.none:
        return f"{row.partition_index}:{row.error_code.name}"
    offset = "none" if row.committed_offset == NO_OFFSET else row.committed_offset
    return f"{row.partition_index}={offset}"
