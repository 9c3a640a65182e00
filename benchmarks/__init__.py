"""Benchmarks of claims: one file per claim, the same script for any Kafka-protocol cluster."""
