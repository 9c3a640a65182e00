"""Groups: what their members ask (`classic_groups`, `consumer_groups`) and what admins do.

Not in it: decisions and images (coordinator/group), the offsets of groups (`offsets`).
"""
