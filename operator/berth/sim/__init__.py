"""The embedded cluster: an object store with the API server's rules, an HTTP API server on it, and simulated actors.

    server/             HTTP: routes, verbs, watches, tables for kubectl, discovery
    store/              objects, their history and watches, lists, updates, patches, deletion
    builtin_kinds/      the API server's rules for built-in kinds: types, defaults, admission, validation, binding
    custom_resources/   definitions, their schemas and CEL rules
    actors/             kubelets, controllers of workloads, namespaces and disruption budgets, a provisioner
    faults/             errors, cuts, delays and lost events, by rule and from a seed

    resources           the kinds that are served        selection        label and field selectors
    objects             plain API objects                errors           refusals as v1 Status
    cron_schedule       when a CronJob is due
    loop                a seeded event loop              virtual_clock    a clock on its time

Imports go downwards: server, then store and faults, then builtin_kinds and custom_resources, then the modules below.
Actors use nothing of the others: they talk to any API server, this one or a real one.
"""
