"""Ready-made relaxed algorithms: one file each, with its mathematics and its torch code."""
