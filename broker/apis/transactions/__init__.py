"""Transactions: requests of producers, of brokers (WriteTxnMarkers) and of admins (lists).

InitProducerId (`producer_ids`) is here too, with and without a transactional id. Not in it:
decisions and images (coordinator/transaction), TxnOffsetCommit (`offsets`).
"""
