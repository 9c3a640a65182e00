"""Invariants of the quorum: votes, epochs, roles, voters, leaders and their followers."""
