"""The plugins, one module a family, each on the shape of `reference.plugin`."""
