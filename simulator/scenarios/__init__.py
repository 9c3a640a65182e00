"""Scenarios as text: commands, `----`, and the exact output that they must give.

In it: the runner, commands of the raft core and of the controller, their values as lines of text.
Not in it: the scenario files themselves (tests/scenarios).
"""
