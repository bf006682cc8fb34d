"""`python -m gendr`."""

import sys

from gendr.cli import program

if __name__ == "__main__":
    sys.exit(program())
