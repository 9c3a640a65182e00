"""Faults of a run: the plan that is drawn, and each kind of fault carried out.

In it: all kinds (`kinds.KINDS`) and the function of each (`table.FAULTS`): faults of network,
processes and disks; the nemesis that carries out a plan; buggified behaviour.
Not in it: the choice of faults for a seed (campaign/draw).
"""
