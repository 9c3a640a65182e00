"""Kafka in Python. In the wheel all packages lie inside this one (docs/install.md).

In the repository it holds only the entry points, so that `kraftline` and `python -m kraftline` are
the same in both. scripts/wheel makes the other layout.
"""
