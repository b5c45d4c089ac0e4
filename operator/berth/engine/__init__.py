"""The engine: pure and synchronous decisions on columns. It knows no clock, no network and no event loop.

pipeline          one policy's filters, scores and tie-break, applied to one pod
plugin, verdict   the plugin contract: what a plugin is, and what it returns
binding_points    the contract of plugins that take part between decision and bind
per_node          plugins that are asked about one node at a time
registry          every plugin by its name
events            what happens in a cluster, as queueing hints see it
plugins/          kube-scheduler's plugins; legacy/: predicates and priorities of old Policy files
custom_plugins/   plugins of other packages; testing: what their tests need
state/            what decisions read, as columns
answer_cache/     answers that are kept between pods that are alike
preemption/       victims
queueing/         what unschedulable pods wait for
extender_result   what extenders said about the nodes
"""
