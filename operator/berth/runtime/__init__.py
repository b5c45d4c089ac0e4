"""One Berth as a process: its components, how they are wired, and its life from start to stop.

    kopf --> handlers --> WatchIntake --> EventFanout --> Scheduler, ObjectBodies, KubernetesCluster, PolicyReports
                               +--------> CacheSync (seen, listed again, gone)
    Scheduler --> KubernetesCluster --> Api
    Scheduler --> ExtenderCalls --> HttpExtenders, with what ObjectBodies keeps for them

wiring            the composition root: every component is built there, top to bottom
runtime           Runtime: starts and stops them, and is what handlers and the command line hold
watch_intake      takes what the watches report
watch_control     whether that is taken, and how watching ends and begins anew
decisions         when decisions are made: once the cache is synced, while this replica leads
incidents         another cluster answers, or its store has gone back in time: what follows at once
recovery          what follows later: fall silent, or start over from fresh lists
housekeeping      notices that the API server is away or back, and that confirmations of binds are missing
policy_reports    the statuses of policies
state_dump        what is known, as text
health_checks     liveness and readiness
statistics        all statistics, which feed the metrics
serving           health, metrics, configuration and dumps over HTTP
"""

from berth.configuration import Options
from berth.runtime.runtime import Runtime
from berth.runtime.wiring import make_runtime

__all__ = ["Options", "Runtime", "make_runtime"]
