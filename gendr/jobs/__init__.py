"""Long work of the application and the study: its loop, checkpoints, settings, and trainings."""
