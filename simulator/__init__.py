"""The second driver of the kernel: virtual time, network, disk and crashes from one seed.

`campaign.run.run_seed(seed, options) -> Outcome`: one seed is one run, always the same.
Rooms: `cluster` (the world that runs), `faults` (what goes wrong), `checks` (what must hold),
`scenarios` (golden text), `campaign` (seeds, schedules, shrinking, reports), `mutants` (changes
that must be found). `main` is `kraftline sim`; docs/simulator says how to use it.
"""
