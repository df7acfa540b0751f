"""Print the table of sections and operators, and exit with 1 if a case fails or a row is empty."""

import sys

from .table import main

sys.exit(main())
