"""Plugins for Berth: RackPower works on columns, TenantLimit is asked about one node at a time."""
