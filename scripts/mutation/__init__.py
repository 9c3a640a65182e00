"""Mutation score of the quick tests: `scripts/mutants --help`, docs/mutation.md.

points.py finds what can be changed in a module, sampling.py draws, tracing.py records which test
runs which statement, worker.py runs the tests of one mutant after the other, score.py counts.
"""
