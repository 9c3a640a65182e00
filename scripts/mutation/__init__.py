"""Mutation score of the quick tests: `scripts/mutants --help`, docs/mutation.md.

points.py finds the possible changes of a module, sampling.py draws from them, tracing.py records
which test runs which statement, worker.py runs the tests of each mutant, score.py counts.
"""
