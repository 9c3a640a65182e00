"""Real processes and real faults: recorded histories, judged for linearizability.

`linearizability/`: checker, models, history formats; a leaf that imports nothing of the project.
Around it: `cluster` (nodes as processes of scripts/quorum), `connections`, `clients`,
`generator`, `workloads`, `nemesis`, `history` (recorder), `report` (checks), `run.run(Options,
say) -> results`. docs/jepsen/harness.md.
`cycles/`: checker of transactions over lists. `records/`, `transactions/`, `groups/`: the workloads
that have partitions.
Not in it: anything of a node but its sockets and its process.
"""
