"""The systems that are measured: our quorum and real Kafka as processes, and clients of both.

The folder above has one file for each claim; none of these prints a figure.
"""
