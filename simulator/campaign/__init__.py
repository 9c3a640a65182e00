"""Seeds: draws, run, repetition, shrinking and page of one; campaigns of many, and their report.

In it: draws, the run of a seed, schedules, the corpus, ledgers of finished seeds, the HTML page.
Not in it: what happens within a run (cluster/, faults/, checks/).
"""
