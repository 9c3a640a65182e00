"""Rules of the end of a run, and of the faults that are no excuse: what must happen in time."""
