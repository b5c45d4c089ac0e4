"""The scheduling engine: pure, synchronous decisions on numpy columns. It has no clock, no network and no event loop.

pipeline          one policy's filters, scores and tie-break, applied to one pod
diagnosis         why no node takes the pod, and the message about it
trial             the node table with some pods moved, for the length of a block
plugin, verdict   the plugin contract: what a plugin is, and what it returns
binding_points    the contract of plugins that take part between decision and bind
per_node          plugins that are called for one node at a time
registry          all plugins by name
events            cluster events, for queueing hints
plugins/          kube-scheduler's plugins; legacy/: predicates and priorities of old Policy files
custom_plugins/   plugins of other packages; testing: what their tests need
state/            what decisions read, as columns
answer_cache/     cached answers, shared by pods with equal signatures
preemption/       the choice of victims and of a node to nominate
queueing/         what unschedulable pods wait for
extender_result   the combined answers of extenders
"""
