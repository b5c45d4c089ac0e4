"""What if: pods placed one after another on a copy of a cluster, by the engine that decides on the real one.

a cluster, a snapshot or manifests become the beginning   live, files, cluster_objects
the question, and the order in which it is answered       simulation
what controllers and the API server do meanwhile          pod_sets, daemons, recreation, claims, admission, budgets
nodes and workloads change                                nodes, scaling, manifests, policies
pods are placed                                           placing, entries, world
what came of it, by workload, and why pods are pending    result, usage, workloads, explaining
... for people and programs                               text, tables, json_form, html_page, pictures
"""
