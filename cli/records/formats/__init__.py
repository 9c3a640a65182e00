"""Records as text: Kafka's line reader, deserializers and message formatters."""
