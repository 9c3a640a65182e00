"""The committed image as brokers and their clients see it."""
