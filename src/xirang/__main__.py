"""`python -m xirang` is the command `xirang`."""

import sys

from xirang.cli import main

if __name__ == "__main__":
    sys.exit(main())
