"""Snapshots: everything that decisions read of a cluster, in one file.

reading        lists a cluster with the rights of the user
trimming       leaves out what no decision reads, such as environments and commands
anonymising    replaces names, labels and images, so that decisions stay the same
files          writes and reads snapshots
offline        a cache and the policies from a snapshot, ready to be asked
"""
