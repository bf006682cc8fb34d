"""Make a data set of meshes for train.py: `python experiments/dataset.py --help`."""

import sys

from lab.reconstruction.commands import dataset_main as main

if __name__ == "__main__":
    sys.exit(main())
