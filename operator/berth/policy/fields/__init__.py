"""The fields of a SchedulingPolicy, in one table: names, types, bounds, rules and descriptions.

    types                             what a field can be, and its OpenAPI schema
    spec_fields, status_fields        the tables
    selector_fields, entry_fields,
    extender_fields, setting_fields   parts of the spec
    crd                               the CustomResourceDefinition (crds/), also the texts of `kubectl explain`
    page                              docs/policy-fields.md

The readers of manifests (`schema`, `entries`, `settings`, `selecting`, `extenders`) take names and bounds from here.
`make docs` writes the definition and the page; tests see that both are current, and that every bound is enforced.
"""
