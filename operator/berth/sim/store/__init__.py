"""The object store: every rule of the API server that Berth, kopf and kubectl rely on, without HTTP.

store            the verbs: create, update, patch, delete, list, watch, bind, evict
registry         the resources that are served now, the custom ones included
history          the objects of one kind, their latest changes, and the watches
paging           lists in pages, at one version
updates          what an update, a status update or a finalize changes
patching         JSON, merge and strategic merge patches; apply
removal          what a delete does: mark the object, or remove it
event_versions   the two APIs for events on one collection
"""

from berth.sim.objects import Object
from berth.sim.store.history import Watch
from berth.sim.store.paging import Page
from berth.sim.store.store import Backup, PatchKind, Store

__all__ = ["Backup", "Object", "Page", "PatchKind", "Store", "Watch"]
