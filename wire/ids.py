"""Conversion of ids between the wire and the project: -1 and the zero UUID become None here only.

kio already reads the zero UUID as None; inside the project a directory id is its 16 bytes.
"""

from uuid import UUID

from wire.types import DirectoryId, NodeId

NO_NODE_ID = -1


def node_id_of(number: int) -> NodeId | None:
    """The node id of an int32; None for a negative one."""
    return None if number < 0 else NodeId(number)


def node_number(node_id: NodeId | None) -> int:
    """The int32 of a node id; -1 for None."""
    return NO_NODE_ID if node_id is None else node_id


def directory_id_of(uuid: UUID | None) -> DirectoryId | None:
    """The directory id of a UUID as kio gives it."""
    return None if uuid is None else DirectoryId(uuid.bytes)


def directory_uuid(directory_id: DirectoryId | None) -> UUID | None:
    """The UUID of a directory id as kio takes it."""
    return None if directory_id is None else UUID(bytes=directory_id)
