"""Print the table of operators and exit with 1 if there is a mismatch."""

import sys

from .table import main

sys.exit(main())
