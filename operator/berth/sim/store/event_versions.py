"""Events have two APIs, v1 and events.k8s.io/v1, on one collection. It holds the v1 form.

v1                                      events.k8s.io/v1
involvedObject, message                 regarding, note
reportingComponent                      reportingController
source, firstTimestamp, lastTimestamp,  deprecatedSource, deprecatedFirstTimestamp, deprecatedLastTimestamp,
count                                   deprecatedCount
"""

from __future__ import annotations

from typing import Final

from berth.sim.objects import Object

NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
OLD_NAMES: Final = {new: old for old, new in NEW_NAMES.items()}
NULLS: Final = ("eventTime", "firstTimestamp", "lastTimestamp")


def to_new(body: Object) -> Object:
    renamed = {NEW_NAMES.get(key, key): value for key, value in body.items()}
    for name in ("reportingController", "reportingInstance"):  # never written when empty, unlike in v1
        if not renamed.get(name):
            renamed.pop(name, None)
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def to_stored(body: Object) -> Object:
    """The v1 form of either, with the fields that are always written."""
    stored = {OLD_NAMES.get(key, key): value for key, value in body.items()}
    for name in NULLS:
        stored.setdefault(name, None)
    stored.setdefault("source", {})
    stored.setdefault("reportingComponent", "")
    stored.setdefault("reportingInstance", "")
    return {**stored, "apiVersion": "v1"}
