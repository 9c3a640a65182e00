"""The logs of a broker with their disk and the step, for the parts that look after their files."""

import msgspec

from broker.services import Services
from storage.logs.log_manager import LogManager
from storage.vfs import Vfs


class StoredLogs(msgspec.Struct, frozen=True):
    """Logs, disk and step of one broker."""

    manager: LogManager
    vfs: Vfs
    services: Services
