"""Blocking clients of groups.

- `coordinators`: found, and asked again while they move or load;
- `group_admin`: lists, descriptions, committed offsets, deletions; `descriptions`: their values.
"""
