"""Entry point of `python -m cli`; `kraftline` and `python -m kraftline` call it too."""

import sys

from cli.main import main


def entry() -> int:
    """Run one command line in this process and return the exit code."""
    # kio registers its types with hypothesis if that is installed, which more than doubles the time
    # until the first output; no command needs it
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    return main()


if __name__ == "__main__":
    raise SystemExit(entry())
