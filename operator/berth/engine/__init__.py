"""The engine: pure and synchronous decisions on columns. It knows no clock, no network and no event loop."""
