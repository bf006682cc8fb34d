"""How the ready-made relaxed algorithms are computed; `choice` chooses one by device or by name."""
