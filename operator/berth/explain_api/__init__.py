"""Explanations as API objects: an aggregated API, `explain.berth.dev/v1alpha1`, for plain kubectl.

    kubectl get why -n shop --> kube-apiserver --front proxy's certificate, X-Remote-User--> this package

what is served      resources (the kinds), discovery, openapi, tables
requests            requests (path and query), negotiation (the form), selection (labels, fields), paging
answers             api (the way of a request), watches, versions (what a watch goes on from), statuses (refusals)
the page            page_files, and the folder page
who and how much    front_proxy (who the caller is), access (what he may do), limits
the other side      port (what the scheduler is asked), live (its implementation)

It lives in the serving thread. Everything about the cluster is read over the port, in the scheduler's loop.
"""
