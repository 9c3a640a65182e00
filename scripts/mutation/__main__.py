"""`python -m scripts.mutation`: what scripts/mutants runs."""

import sys

from scripts.mutation.commands import main

sys.exit(main(sys.argv[1:]))
