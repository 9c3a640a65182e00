"""Faults of a disk drawn from an rng: give it to `MemoryVfs.failing`.

One rng per disk and one draw per operation, whatever its kind, so that a run with the same
operations and seed has the same faults.
"""

import errno

import msgspec

from wire.types import Rng

_MILLION = 1_000_000


class DiskFaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """How often, per million operations of a kind. All zero by default."""

    read_error: int = 0
    """EIO of a read: the node must stop or do without."""
    write_error: int = 0
    """EIO of a write, after half of its bytes."""
    no_space: int = 0
    """ENOSPC of a write or a new file: what was written is taken back, later it works again."""
    sync_error: int = 0
    """EIO of a sync: what it covered is lost for good, the node must stop."""
    slow_flush: int = 0
    flush_ms_max: int = 0
    """A flush usually takes no time; a slow one from 1 to `flush_ms_max` ms."""


class DiskFaults:
    """Decides for one disk; `paths` limits it to paths that contain one of these words."""

    def __init__(self, rng: Rng, rates: DiskFaultRates, paths: tuple[str, ...] = ()) -> None:
        self._rng = rng
        self._rates = rates
        self._paths = paths
        self.fired: dict[str, int] = {}
        """How often each fault happened, by name."""

    def __call__(self, kind: str, path: str, /) -> int | None:
        """The errno of the fault, None for none."""
        if self._paths and not any(word in path for word in self._paths):
            return None
        draw = self._rng.randrange(_MILLION)
        rates = self._rates
        match kind:
            case "read" if draw < rates.read_error:
                return self._fire("read_error", errno.EIO)
            case "sync" if draw < rates.sync_error:
                return self._fire("sync_error", errno.EIO)
            case "write" | "create" if draw < rates.no_space:
                return self._fire("no_space", errno.ENOSPC)
            case "write" if draw < rates.no_space + rates.write_error:
                return self._fire("write_error", errno.EIO)
            case _:
                return None

    def flush_delay_ms(self) -> int:
        """How long the next flush takes, for the driver that runs it."""
        rates = self._rates
        if rates.flush_ms_max == 0 or self._rng.randrange(_MILLION) >= rates.slow_flush:
            return 0
        self.fired["slow_flush"] = self.fired.get("slow_flush", 0) + 1
        return 1 + self._rng.randrange(rates.flush_ms_max)

    def _fire(self, name: str, code: int) -> int:
        self.fired[name] = self.fired.get(name, 0) + 1
        return code
