"""From an assumed pod to a bound one.

binding_cycle         pods that have a node and are not bound yet
binding_plugins       Reserve, Permit, PreBind and PostBind of a policy's plugins
volumes               binds a pod's volumes before the pod
binding               the binds themselves, each to its end
bind_confirmations    what we bound must come back through the watch
places                a limited number of binds at once
"""
