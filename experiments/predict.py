"""Make a mesh from each image with a trained network: `python experiments/predict.py --help`."""

import sys

from lab.reconstruction.commands import predict_main as main

if __name__ == "__main__":
    sys.exit(main())
