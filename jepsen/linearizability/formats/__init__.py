"""Formats of histories: Jepsen's log lines, EDN, JSON lines and MessagePack."""
