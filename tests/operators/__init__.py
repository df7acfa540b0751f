"""Every operator of the standard library beside software that was not written here.

`python -m tests.spec` prints the table of all operators; under pytest a part of the same
cases runs (`test_operators.py`), and every assert is violated once (`test_rejected.py`).
"""
