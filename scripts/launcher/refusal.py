"""Error with which any command of the launcher ends."""


class RefusalError(Exception):
    """The command cannot be done; the text is one line for the person, the exit code is 1."""
