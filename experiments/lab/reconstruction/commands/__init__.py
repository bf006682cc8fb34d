"""What the scripts train.py, dataset.py and predict.py do."""
