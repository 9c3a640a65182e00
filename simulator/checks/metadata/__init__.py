"""Invariants of what is committed: images, snapshots, publications, the active controller."""
