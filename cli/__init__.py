"""Commands for people: format storage, manage topics, describe the quorum, dump logs."""
