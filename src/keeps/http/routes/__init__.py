"""The routes of the published API, one module a noun."""
