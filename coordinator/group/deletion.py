"""DeleteGroups: groups without members, with their offsets.

(apache/kafka: GroupCoordinatorShard.deleteGroups)
"""

from collections.abc import Sequence

from coordinator.group.image import GroupsImage
from coordinator.group.offsets.deletions import delete_all_offsets
from coordinator.group.rules import GroupRules
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.write import Write
from wire.errors import ErrorCode

DeletedGroups = tuple[tuple[str, ErrorCode], ...]


def delete_groups(
    image: GroupsImage, group_ids: Sequence[str], rules: GroupRules
) -> Write[DeletedGroups]:
    """Delete groups, each with its code: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP or none.

    Args:
        image: the latest.
        group_ids: once each.
        rules: of the groups.
    """
    records: list[CoordinatorRecord] = []
    codes = []
    for group_id in group_ids:
        group = image.groups.get(group_id)
        code = ErrorCode.none
        if group is None:
            code = ErrorCode.group_id_not_found
        else:
            tombstones = rules.tombstones(group_id, group)
            if tombstones is None:
                code = ErrorCode.non_empty_group
            else:
                records += delete_all_offsets(image, group_id) + tombstones
        codes.append((group_id, code))
    return Write(response=tuple(codes), records=tuple(records), is_atomic=False)
