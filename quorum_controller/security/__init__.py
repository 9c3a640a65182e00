"""Who may do what, and who is who: ACLs, authorization, SCRAM credentials, delegation tokens.

In it: the managers of these records and the authorizer's decision.
Not in it: where a node asks for it (kernel/serving/access).
"""
