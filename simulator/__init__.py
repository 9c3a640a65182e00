"""The second driver of the kernel: virtual time, network, disk and crashes from one seed."""
