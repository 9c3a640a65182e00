"""`python -m cli` and the installed `kraftline` are this."""

import sys

from cli.main import main


def entry() -> int:
    """The process of one command; returns the exit code."""
    # kio registers its types with hypothesis where that is installed, which more than doubles the
    # time until the first output; no command needs it
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    return main()


if __name__ == "__main__":
    raise SystemExit(entry())
