"""Berth: a Kubernetes scheduler that is programmed with kubectl."""

__version__ = "0.1.0"
