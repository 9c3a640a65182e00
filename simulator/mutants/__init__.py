"""Mutants of the system: each breaks one rule, and the simulator has to find every one."""
