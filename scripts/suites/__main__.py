"""Entry point of `python -m scripts.suites`, which scripts/public_suites runs."""

import sys

from scripts.suites.commands import main

sys.exit(main(sys.argv[1:]))
