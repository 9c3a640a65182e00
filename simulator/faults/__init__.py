"""What goes wrong in a run: the plan that is drawn, and each kind of fault carried out.

In it: all kinds (`kinds.KINDS`) and what carries each out (`table.FAULTS`): faults of network,
processes and disks; the nemesis that carries a plan out by it, buggified behaviour.
Not in it: which seed gets which fault (campaign/draw).
"""
