"""The cluster as the watches tell it, plus what was decided and the watches have not shown yet.

cache          Cache: objects in, changes out
versions       which object is which, and which report about it is newer
templates      pods of one template are read once
pod_states     pending, assumed, bound; the room that each pod takes
nominations    our own nominations, until the cluster shows them
changes        what the difference between two versions of an object means to pods that wait
"""
