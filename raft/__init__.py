"""KRaft consensus as a deterministic machine: event in, effects out (KIP-595, KIP-996)."""
