"""The client: the verbs of the memory over HTTP."""

from keeps.client.calls import DEFAULT_ENDPOINT, Call
from keeps.client.verbs import Client, walk

__all__ = ["DEFAULT_ENDPOINT", "Call", "Client", "walk"]
