"""Errors with which the commands of the launcher end."""


class RefusalError(Exception):
    """The command cannot be done; the text is one line for the person, the exit code is 1."""


class UsageError(RefusalError):
    """No quorum could carry out this command line; the exit code is 2."""
