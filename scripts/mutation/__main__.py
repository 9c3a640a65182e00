"""Entry point of `python -m scripts.mutation`, which scripts/mutants runs."""

import sys

from scripts.mutation.commands import main

sys.exit(main(sys.argv[1:]))
