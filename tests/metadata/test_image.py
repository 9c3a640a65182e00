"""Brokers of an image: their log directories and the replicas in them."""

import pytest

from metadata.image import Broker
from wire.types import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerEpoch,
    DirectoryId,
    NodeId,
    Offset,
)

OWN, OTHER = DirectoryId(b"\x07" * 16), DirectoryId(b"\x08" * 16)


@pytest.mark.parametrize(
    ("log_dirs", "directory", "is_online"),
    [
        ((OWN,), OWN, True),
        ((OWN,), OTHER, False),
        ((OWN,), DIRECTORY_LOST, False),
        ((OWN,), DIRECTORY_MIGRATING, True),
        ((OWN,), DIRECTORY_UNASSIGNED, True),
        ((), OTHER, True),  # it never told its directories
        ((), DIRECTORY_LOST, False),
    ],
)
def test_a_replica_is_online_in_the_directories_of_its_broker(
    log_dirs: tuple[DirectoryId, ...], directory: DirectoryId, *, is_online: bool
) -> None:
    broker = Broker(
        id=NodeId(1),
        epoch=BrokerEpoch(5),
        incarnation_id=bytes(16),
        endpoints=(),
        features=(),
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=log_dirs,
        cordoned_log_dirs=None,
        registration_offset=Offset(5),
    )
    assert broker.has_online_directory(directory) is is_online
