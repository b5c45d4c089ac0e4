"""kube-scheduler's plugins, one module each, all with the same structure. `common` has what several of them share."""
