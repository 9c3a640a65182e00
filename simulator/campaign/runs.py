"""A run of either kind: of metadata alone, or with records, as the options say."""

from simulator.campaign.draw import Options, Until
from simulator.campaign.probes import MARKS
from simulator.campaign.recording import Recording
from simulator.campaign.run import Outcome, run_seed
from simulator.cluster.world import Traced
from simulator.copying.marks import COPY_MARKS
from simulator.faults.decision import Decision
from simulator.records.marks import GROUPS_MARKS, RECORDS_MARKS
from simulator.records.run import run_records
from simulator.records.transactions.marks import TRANSACTION_MARKS


def run_with(
    seed: int,
    options: Options,
    *,
    plan: list[Decision] | None = None,
    trace: Traced | None = None,
    recording: Recording | None = None,
    until: Until | None = None,
) -> Outcome:
    """Run one seed; arguments as of `run_seed`."""
    run = run_records if options.has_records else run_seed
    return run(seed, options, plan=plan, trace=trace, recording=recording, until=until)


def marks_of(options: Options) -> tuple[str, ...]:
    """Coverage marks that runs with these options can meet."""
    of_records = (
        *RECORDS_MARKS,
        *(TRANSACTION_MARKS * options.has_transactions),
        *(GROUPS_MARKS * options.has_groups),
        *(COPY_MARKS * (options.has_groups and options.has_transactions)),
    )
    return of_records if options.has_records else MARKS
