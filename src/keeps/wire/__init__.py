"""JSON shapes of requests and responses: every spelling in, one spelling out."""
