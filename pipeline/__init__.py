"""Spark jobs over Kafka-format segment files."""
