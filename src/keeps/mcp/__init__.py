"""The memory for agents that speak the Model Context Protocol."""
