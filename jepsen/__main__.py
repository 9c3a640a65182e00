"""`python -m jepsen ARGS` is `kraftline jepsen ARGS`."""

import sys

from cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["jepsen", *sys.argv[1:]]))
