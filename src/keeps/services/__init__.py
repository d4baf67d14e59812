"""The verbs: each the order of steps between caller, rules and store."""
