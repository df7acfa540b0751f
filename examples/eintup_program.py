"""A program that says what attention is: explained, verified against PyTorch, called at any rank.

    pip install -e ".[torch]"
    python examples/eintup_program.py

Its cells, marked `# %%`, can be run one by one in an editor that knows them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ricci

# %%
attention = ricci.eintup.load(Path(__file__).parent / "eintup" / "attention.et")
print(attention.explain())

# %% [markdown]
# The file names the call of PyTorch that the formula must equal, and which ranks are legal: all of
# them are tried, with dims that are drawn from what the constraints allow.

# %%
print(attention.verify(reps=2, seed=0))

# %% [markdown]
# In a call ranks and dims follow from the arrays. `batch` is as many axes as these have more than
# the formula needs: none, one, or eight sequences of four heads.

# %%
rng = np.random.default_rng(0)


def show_calls() -> list[tuple[int, ...]]:
    shapes = []
    for batch in [(), (3,), (8, 4)]:
        query = rng.standard_normal((*batch, 20, 16))
        key = rng.standard_normal((*batch, 30, 16))
        value = rng.standard_normal((*batch, 30, 10))
        result = attention(query, key, value)
        shapes.append(result.shape)
        ranks = attention.infer(query, key, value).ranks
        print(f"RANK(batch) = {ranks['batch']}: {query.shape} gives {result.shape}")
    return shapes


shapes = show_calls()

# %% [markdown]
# Arrays that do not fit are answered with what disagrees, and with what would fit.

# %%
try:
    attention(np.ones((3, 20, 16)), np.ones((3, 30, 15)), np.ones((3, 30, 10)))
except ricci.Error as problem:
    print(problem)

# %% [markdown]
# The gradient is derived from the statements, and has all ranks, too.

# %%
query, key, value = (rng.standard_normal((2, 5, 4)) for _ in range(3))
gradients = attention.gradient()(query, key, value, np.ones((2, 5, 4)))
print("gradients:", *(g.shape for g in gradients))
