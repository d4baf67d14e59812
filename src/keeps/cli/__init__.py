"""The command line: puts the parts together, and gives each verb a command."""
