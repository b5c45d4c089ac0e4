"""The binding cycle: from an assumed pod to a bound one.

binding_cycle         assumed pods until their bind starts: Reserve, Permit, PreBind, volumes
binding_plugins       Reserve, Permit, PreBind, Bind and PostBind plugins of a policy, for one pod
volumes               binds a pod's volumes before the pod
binding               the binds themselves, in the background
unconfirmed_binds     the binds that the watch has yet to confirm
bind_confirmations    looks for binds whose confirmation is late
places                limits the number of concurrent binds
"""
