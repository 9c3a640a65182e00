"""`python -m kraftline` and the installed command `kraftline`."""

from cli.__main__ import entry

if __name__ == "__main__":
    raise SystemExit(entry())
