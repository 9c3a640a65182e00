"""Metadata logs and snapshots written by real Kafka nodes."""

from pathlib import Path

from metadata.loader import committed_batches

GOLDEN = Path(__file__).parent.parent / "golden" / "metadata"
SCENARIOS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def log_bytes(scenario):
    """The whole metadata log of a scenario."""
    return b"".join(path.read_bytes() for path in sorted((GOLDEN / scenario).glob("*.log")))


def log_batches(scenario):
    """Its batches as records."""
    return list(committed_batches(log_bytes(scenario)))


def checkpoints(scenario):
    """(end offset, epoch, bytes) of each snapshot of a scenario, in order."""
    found = []
    for path in sorted((GOLDEN / scenario).glob("0*.checkpoint")):
        offset, epoch = path.stem.split("-")
        found.append((int(offset), int(epoch), path.read_bytes()))
    return found
