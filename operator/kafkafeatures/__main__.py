"""`python -m kafkafeatures` and the console script."""

import sys

from kafkafeatures.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
