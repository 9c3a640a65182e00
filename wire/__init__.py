"""Bytes to and from typed values of the Kafka protocol; no sockets."""
