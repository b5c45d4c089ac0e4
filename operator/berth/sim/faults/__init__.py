"""Faults by rule, from a seed: errors, cuts, delays and lost events, as a cluster has them now and then.

A `Rule` (rules.py) says what happens (its fault), to what (kinds, verbs, subresources) and how often (a probability,
every n-th time, at most so many times). `Faults` (injection.py) holds the rules and has a method for each decision of
the server:

    before(request)           what is done to this request            Fail CutBefore CutAfter Delay StaleList
    on_event(kind, type, ..)  in which copies a watch event goes out  Miss Late Double
    watch_lifetime(kind)      after how long this watch is dropped    DropWatch
    expire(kind, now)         whether the next watch (or page) of this kind gets 410   Expire

Of the rules that match, the first that fires wins. Each rule draws from a random stream of its own, and what it draws
depends on the seed, the rule's place and the number of draws: a rule that is added at the end changes nothing for those
before it.

`on_event` returns one `Copy` for each time that the event is sent:

- none: the event is missed, and the client's next watch does not bring it either unless it starts before it;
- the first copy keeps its place in the stream. If it is late, everything behind it waits, as on a slow connection:
  an API server never sends changes of one kind in another order than they were made. The delay counts from the moment
  at which the event reached the watch (due = max(due of the one before, then + delay)), so delays do not add up;
- a second copy repeats an old event: it is sent by itself when its time has come, whatever was sent meanwhile. Where
  other events are late, repeat later than those: a repeat that overtakes its own first copy tells the client of a
  version beyond what is held back, and after a cut the client resumes from there and has missed it;
- `drop`: the connection is dropped right after that copy. What was still held back then is not lost: it has not been
  sent, so the client's next watch, from the last version that it saw, brings it.

It has no clock and does no I/O: times come in as arguments and go out as seconds.
"""

from berth.sim.faults.injection import Faults, storm
from berth.sim.faults.rules import (
    ONCE,
    Action,
    Copy,
    CutAfter,
    CutBefore,
    Delay,
    Double,
    DropWatch,
    EventFault,
    Expire,
    Fail,
    Fault,
    FaultRequest,
    Late,
    Miss,
    Rule,
    StaleList,
)

__all__ = [
    "ONCE",
    "Action",
    "Copy",
    "CutAfter",
    "CutBefore",
    "Delay",
    "Double",
    "DropWatch",
    "EventFault",
    "Expire",
    "Fail",
    "Fault",
    "FaultRequest",
    "Faults",
    "Late",
    "Miss",
    "Rule",
    "StaleList",
    "storm",
]
