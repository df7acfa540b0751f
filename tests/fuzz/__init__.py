"""Programs that a mutation has damaged: each must give a diagnostic or succeed."""
