"""Everything that a decision reads, as columns and counters that are updated with every change in the cluster.

state                 State: all of the below in one place
node_table            one row per node: resources, labels, conditions; which rows changed
resources, amounts    which resources have a column; arithmetic that saturates at 64 bits
columns               columns that grow with the node table
node_attributes       conditions, annotations and limits of nodes
domains               topology domains: nodes by the value of a label
taints, images, host_ports
node_selection        node selectors on columns
pod_counts            how many pods that match a selector are on each row
affinity_terms, term_sets     affinity terms of placed pods
placed_pods           placed pods as columns, for preemption
nominated_pods, nominated_rows     all nominated pods, and those that count for one pod
owners, budgets       ReplicaSets and other owners of pods; disruption budgets
volume_index, volume_reservations, free_volumes, csi_nodes, storage_space, migration     volumes and disks
"""
