"""All targets by name."""

from functools import cache

from tests.fuzz import (
    batch_targets,
    broker_target,
    command_targets,
    coordinator_target,
    dump_target,
    fetch_target,
    file_targets,
    kernel_target,
    partition_target,
    past_targets,
    peer_target,
    record_targets,
    run_file_targets,
    stream_targets,
    text_targets,
    wire_targets,
)
from tests.fuzz.engine import Target


@cache
def all_targets() -> dict[str, Target]:
    """Every decoder that takes bytes from outside."""
    modules = (
        wire_targets, batch_targets, file_targets, run_file_targets, text_targets, kernel_target,
        peer_target, command_targets, dump_target, past_targets, record_targets,
        broker_target, coordinator_target, partition_target, stream_targets, fetch_target,
    )  # fmt: skip
    found = [target for module in modules for target in module.targets()]
    assert len({target.name for target in found}) == len(found)
    return {target.name: target for target in found}
