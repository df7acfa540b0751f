"""Print the table of features and what shows them: 1 if one has no test, or one that fails."""

import sys

from .features import show

sys.exit(show())
