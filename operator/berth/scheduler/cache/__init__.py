"""The cluster as the watches report it, plus decisions that the watches have not confirmed yet.

cache          Cache: takes objects, returns changes
versions       identifies objects by UID, and compares their resourceVersions
templates      parses the pods of one template once
pod_states     pending, assumed, bound; the room that each pod takes on its node
nominations    our own nominations until the watch shows them
changes        which events the difference between two versions of an object causes
"""
