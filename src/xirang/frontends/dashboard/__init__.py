"""The live dashboard: a page, its parts, and a stream of what happens."""

from xirang.frontends.dashboard.routes import is_open, routes

__all__ = ["is_open", "routes"]
