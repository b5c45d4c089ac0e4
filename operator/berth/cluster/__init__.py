"""The one package that talks to an API server: credentials, requests, and the writes and comparisons built on them.

`api` carries requests, `credentials` says to whom and as whom. On top of them: `binder` (binds and reads pods),
`conditions` and `events` (what users see on a pod), `statuses` (what they see on a policy), `cache_sync` (is the
cache synced, is it right), `drift` (what differed, and is repaired) and `port`, which is the scheduler's Cluster port
over all of these. `fence` is asked before each write where several replicas run, `leader` opens and closes it.
`event_fanout` hands every changed object to those who listen.
"""
