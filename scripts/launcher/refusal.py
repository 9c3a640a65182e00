"""The one way in which a command of the launcher says no."""


class RefusalError(Exception):
    """The command cannot be done; the text is one line for the person, the exit code is 1."""
