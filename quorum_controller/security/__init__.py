"""Security: ACLs, authorization, SCRAM credentials, delegation tokens.

In it: the managers of these records and the authorizer's decision.
Not in it: the authorization of requests on a node (kernel/serving/access).
"""
