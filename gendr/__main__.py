"""`python -m gendr`."""

import sys

from gendr.cli import main

if __name__ == "__main__":
    sys.exit(main())
