"""Custom resources: what a definition makes the store serve, and what it makes it refuse.

crds               definitions, as resources with their versions
schema             structural schemas: prune, default, validate
validation_rules   rules in CEL (x-kubernetes-validations)
"""
