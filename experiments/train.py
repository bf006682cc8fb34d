"""Train a network that makes a mesh from one image: `python experiments/train.py --help`."""

import sys

from lab.reconstruction.commands import train_main as main

if __name__ == "__main__":
    sys.exit(main())
