"""One whole node as a value: events and bytes in, effects out."""
