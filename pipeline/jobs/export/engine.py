"""Run the tasks of an export by an engine, and show the damage that they met."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.core.stage import EngineChoice
from pipeline.jobs.engines import start_engine
from pipeline.jobs.export.plan import ExportPlan
from pipeline.jobs.export.tasks import SHOWN, Damage, Exported, Task, export_stage
from pipeline.jobs.job import JobConfig, progress

NAME = "export"


def run_tasks(
    config: JobConfig, plan: ExportPlan, tasks: Sequence[Task], choice: EngineChoice, data: Path
) -> tuple[list[Exported], list[Damage]]:
    """Run the tasks; returns the files that they wrote below a folder, and the damage they met."""
    target = msgspec.structs.replace(plan.target, folder=str(data))
    stage = export_stage(tasks, plan.options, target)
    engine = start_engine(config, NAME, choice)
    size = sum(stage.sizes)
    with progress(engine.spark, size, tasks=len(tasks), as_json=config.as_json) as shown:
        found = [one for part in engine.run(stage, shown) for one in part]
    return (
        [one for one in found if isinstance(one, Exported)],
        [one for one in found if isinstance(one, Damage)],
    )


def tell(lines: Sequence[str]) -> None:
    """Write lines on stderr."""
    for line in lines:
        sys.stderr.write(f"{line}\n")


def show_damage(damages: Sequence[Damage]) -> None:
    """Name the first damaged places on stderr."""
    count = sum(one.count for one in damages)
    shown = [finding for damage in damages for finding in damage.first][:SHOWN]
    tell([finding.line() for finding in shown])
    if count > len(shown):
        tell([f"and {count - len(shown)} more"])
