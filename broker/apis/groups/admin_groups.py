"""DescribeGroups, ListGroups, DeleteGroups: what admin clients ask about groups.

(apache/kafka: core/.../server/KafkaApis.scala, handleDescribeGroupsRequest and those after it;
group-coordinator/.../GroupCoordinatorService.java)
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from broker.apis.access import Access
from broker.apis.groups.group_operations import group_operations
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.classic import views
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.deletion import DeletedGroups, delete_groups
from coordinator.group.image import GroupsImage
from coordinator.runtime.shard import Shard, ShardState
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.steps import Steps

DESCRIBED_UNITS: Final = 5
"""Cost of the description of a group or of a member."""
LISTED_PER_PIECE: Final = 100
"""Groups of a list in one piece of work."""
LISTED_UNITS: Final = 3
"""Cost of a group of a list."""
DELETED_UNITS: Final = 60
"""Cost of the deletion of a group with few offsets."""

Deleted = Callable[[str, DeletedGroups | ApiError], None]
"""Called with a group and the result of its deletion."""


class AdminApis:
    """Handlers of requests about whole groups.

    Args:
        groups: the coordinator.
        access: DESCRIBE or DELETE of each group is asked for; of a list, DESCRIBE of the cluster is
            enough.
    """

    def __init__(self, groups: GroupCoordinator, access: Access) -> None:
        self._groups = groups
        self._access = access

    def describe(self, call: Call) -> None:
        """DescribeGroups, versions 0 to 6: classic groups; those that are denied come first."""
        call.go_on(self._describing(call))

    def list_groups(self, call: Call) -> None:
        """ListGroups, versions 0 to 5: groups of all kinds that this broker coordinates."""
        call.go_on(self._listing(call))

    def delete(self, call: Call) -> None:
        """DeleteGroups, versions 0 to 2: those without members."""
        call.go_on(self._deleting(call))

    def _describing(self, call: Call) -> Steps[None]:
        body = call.body()
        rows, allowed = [], []
        for group_id in body.groups:
            if self._allows(call, Operation.DESCRIBE, group_id):
                allowed.append(group_id)
            else:
                rows.append(views.refused(group_id, ErrorCode.group_authorization_failed))
        for group_id in allowed:
            row = self._described(group_id, call.header.api_version)
            if body.include_authorized_operations and row.error_code is ErrorCode.none:
                operations = group_operations(self._access, call.caller, group_id)
                row = replace(row, authorized_operations=operations)
            rows.append(row)
            yield DESCRIBED_UNITS * (1 + len(row.members))
        new = codec.newest(DESCRIBE_GROUPS, "response")
        call.answer(new.DescribeGroupsResponse(throttle_time=NO_TIME, groups=tuple(rows)))

    def _described(self, group_id: str, version: int) -> Any:
        shard = self._groups.of(group_id)
        if isinstance(shard, ApiError):
            return views.refused(group_id, shard.code)
        row = machine_of(shard).room(ClassicRoom).described(group_id)
        if row is not None:
            return row
        is_other = group_id in shard.committed.groups
        message = (
            f"Group {group_id} is not a classic group."
            if is_other
            else (f"Group {group_id} not found.")
        )
        return views.not_found(group_id, version=version, message=message)

    def _listing(self, call: Call) -> Steps[None]:
        body = call.body()
        shards = self._groups.active()
        is_loading = self._groups.loading_count > 0
        rows = []
        for shard in () if is_loading else shards:
            group_ids = sorted(shard.committed.groups)
            for start in range(0, len(group_ids), LISTED_PER_PIECE):
                if shard.state is not ShardState.ACTIVE:
                    break  # another broker lists its groups
                piece = group_ids[start : start + LISTED_PER_PIECE]
                rows += self._listed(call, body, shard, piece)
                yield LISTED_UNITS * len(piece)
        new = codec.newest(LIST_GROUPS, "response")
        code = ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.none
        call.answer(
            new.ListGroupsResponse(throttle_time=NO_TIME, error_code=code, groups=tuple(rows))
        )

    def _listed(
        self, call: Call, body: Any, shard: Shard[GroupsImage], group_ids: Sequence[str]
    ) -> list[Any]:
        machine = machine_of(shard)
        sees_all = self._access.allows_cluster(call.caller, Operation.DESCRIBE)
        states = {state.strip().lower() for state in body.states_filter}
        types = {kind.lower() for kind in body.types_filter}
        return [
            row
            for group_id in group_ids
            if (row := machine.listed(group_id)) is not None
            and (not states or row.group_state.lower() in states)
            and (not types or row.group_type in types)
            and (sees_all or self._allows(call, Operation.DESCRIBE, group_id))
        ]

    def _deleting(self, call: Call) -> Steps[None]:
        """Delete group by group; the answer waits for all."""
        group_ids = tuple(dict.fromkeys(call.body().groups_names))
        call.park(forget)
        codes: dict[str, ErrorCode] = {}
        allowed = [each for each in group_ids if self._allows(call, Operation.DELETE, each)]
        denied = sorted(set(group_ids).difference(allowed))

        def done(group_id: str, found: DeletedGroups | ApiError) -> None:
            codes[group_id] = found.code if isinstance(found, ApiError) else found[0][1]
            if len(codes) == len(allowed):
                _answer_deleted(call, [(each, codes[each]) for each in allowed], denied)

        if not allowed:
            _answer_deleted(call, [], denied)
        for group_id in allowed:
            shard = self._groups.of(group_id)
            if isinstance(shard, ApiError):
                done(group_id, shard)
            else:
                self._delete_one(shard, group_id, done)
            yield DELETED_UNITS

    def _delete_one(self, shard: Shard[GroupsImage], group_id: str, done: Deleted) -> None:
        rules = machine_of(shard).rules
        shard.write(
            lambda image: delete_groups(image, (group_id,), rules),
            lambda found: done(group_id, found),
        )

    def _allows(self, call: Call, operation: Operation, group_id: str) -> bool:
        return self._access.allows(call.caller, operation, ResourceType.GROUP, group_id)


def _answer_deleted(
    call: Call, rows: Sequence[tuple[str, ErrorCode]], denied: Sequence[str]
) -> None:
    new = codec.newest(DELETE_GROUPS, "response")
    all_rows = (*rows, *((each, ErrorCode.group_authorization_failed) for each in denied))
    call.answer(
        new.DeleteGroupsResponse(
            throttle_time=NO_TIME,
            results=tuple(
                new.DeletableGroupResult(group_id=group_id, error_code=code)
                for group_id, code in all_rows
            ),
        )
    )
