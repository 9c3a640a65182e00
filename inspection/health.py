"""Liveness and readiness of a node."""

from typing import Final, Literal

from inspection.running_node import RunningNode
from inspection.views import View

COMMIT_AGE_MS_MAX: Final = 5_000
"""A leader writes a NoOp record every 500 ms: no commit for this long means no progress."""


class Check(View, frozen=True, kw_only=True):
    """One condition of readiness."""

    name: str
    passed: bool
    detail: str


class HealthView(View, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of /livez and /readyz."""

    status: Literal["ok", "failed"]
    failed: tuple[str, ...] = ()
    """Names of the failed checks."""
    checks: list[Check] | None = None
    """All checks, with `?verbose`."""


def ready_checks(node: RunningNode) -> list[Check]:
    """Conditions of readiness, in the order in which a start fulfils them."""
    core = node.core
    leader_id, high_watermark = core.leader.leader_id, core.high_watermark
    applied = node.committed_end
    checks = [
        Check(
            name="leader_known",
            passed=leader_id is not None,
            detail="no leader is known"
            if leader_id is None
            else f"node {leader_id} leads epoch {core.leader.epoch}",
        ),
        Check(
            name="caught_up",
            passed=high_watermark is not None and applied >= high_watermark,
            detail=f"applied below {applied}, high watermark "
            + ("unknown" if high_watermark is None else str(high_watermark)),
        ),
        _moving(node),
    ]
    if node.config.is_broker:
        checks.append(
            Check(
                name="unfenced",
                passed=node.is_unfenced,
                detail="the broker is unfenced" if node.is_unfenced else "the broker is fenced",
            )
        )
    return checks


def _moving(node: RunningNode) -> Check:
    interval_ms = node.config.metadata_log.idle_interval_ms_max
    last_ms = node.watch.last_commit_ms
    if interval_ms == 0 and last_ms is not None:
        return Check(
            name="high_watermark_moving",
            passed=True,
            detail="metadata.max.idle.interval.ms is 0: an idle quorum commits nothing",
        )
    if last_ms is None:
        return Check(name="high_watermark_moving", passed=False, detail="nothing was committed yet")
    age_ms = max(0, node.now().monotonic_ms - last_ms)
    return Check(
        name="high_watermark_moving",
        passed=age_ms <= max(COMMIT_AGE_MS_MAX, 3 * interval_ms),
        detail=f"the last commit was {age_ms} ms ago",
    )


def health_view(checks: list[Check], *, is_verbose: bool) -> HealthView:
    """One answer from all checks."""
    failed = tuple(check.name for check in checks if not check.passed)
    return HealthView(
        status="failed" if failed else "ok", failed=failed, checks=checks if is_verbose else None
    )
