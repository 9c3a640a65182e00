"""Invariants of records: what was promised to clients is kept, replicas are equal."""
