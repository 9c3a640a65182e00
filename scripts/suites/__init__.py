"""`scripts/public_suites`: tests of other projects that use Kafka, run against this tree.

`catalogue` (which suites, at which version, what they need), `explained` (why a test of theirs does
not pass), `checkouts` (their files, fetched), `environments` (one virtual environment a suite, with
the wheel of this tree), `run` (one suite in its own process), `outcomes` (what came of it, tables),
`commands` (the command line), `adapter/` (pytest's plugin inside the suite's process).
Not in it: anybody else's code.
"""
