"""`scripts/quorum`: processes of a quorum on this machine. Standard library only."""
