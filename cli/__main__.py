"""`python -m cli` is the `kraftline` command."""

from cli.main import main

raise SystemExit(main())
