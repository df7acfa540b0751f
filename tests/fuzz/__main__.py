"""Runs mutated programs through parser, checker and composition.

    python -m tests.fuzz [--cases 10000] [--seed 0]

Every case must end in a composed graph or in a `ricci.Error` whose findings render, within two
seconds. Anything else is printed with its seed and text, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
from collections import Counter

from .mutate import corpus, mutate
from .run import run_program

LIMIT = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    programs = corpus()
    outcomes: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    slowest = (0.0, -1)
    for case in range(options.seed, options.seed + options.cases):
        name, text = programs[case % len(programs)]
        damaged = mutate(text, case)
        start = time.perf_counter()
        try:
            found = run_program(damaged)
        except BaseException:
            outcomes["crashed"] += 1
            print(f"case {case} ({name}):\n{damaged}\n{traceback.format_exc()}")
            continue
        seconds = time.perf_counter() - start
        slowest = max(slowest, (seconds, case))
        outcomes["slow" if seconds > LIMIT else "rejected" if found else "accepted"] += 1
        codes.update(found)
        if seconds > LIMIT:
            print(f"case {case} ({name}) took {seconds:.1f} s:\n{damaged}")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    print("codes:", ", ".join(f"{code} {count}" for code, count in sorted(codes.items())))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"slowest: {slowest[0]:.2f} s (case {slowest[1]}); peak memory {memory:.0f} MB")
    return 1 if outcomes["crashed"] or outcomes["slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
