"""Kafka's files on disk: the log and the small files around it, through one door to the system."""
