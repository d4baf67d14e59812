"""The HTTP face: it reads requests, finds the caller, calls one service, writes the reply."""
