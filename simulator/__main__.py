"""`python -m simulator` is `kraftline sim`."""

import os
import sys

from simulator.main import run


def main() -> int:
    """Run the command line of the process; return the exit code."""
    try:
        exit_code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output left: nothing more to say, not even at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return exit_code


if __name__ == "__main__":
    raise SystemExit(main())
