"""One file a noun: read the request, call one service, write the reply."""
