"""Real processes and real faults: recorded histories, judged for linearizability."""
