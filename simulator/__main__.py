"""`python -m simulator` is `kraftline sim`."""

import sys

from simulator.main import run

if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
