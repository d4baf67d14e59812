"""One file a noun: read the request, call one service, write the reply."""

# Route paths name the convertor `segment`, which this module registers.
from keeps.http import rawpath as rawpath
