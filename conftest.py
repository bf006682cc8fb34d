"""What all tests share, those of the study too: `tests/shared.py`."""

pytest_plugins = ["shared"]
