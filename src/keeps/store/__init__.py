"""The record in SurrealDB: the only place that knows its language and its package."""
