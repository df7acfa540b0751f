"""Measurements against other software; nothing here is a test.

`suite` compares models and kernels with ONNX Runtime, OpenVINO and PyTorch: `cases_*` say what is
computed, `peers` how the others do it, `measure` how time is taken, `machine` what the machine can
do, `report` and `charts` what is said of it. The other scripts measure one thing each:
`compile_time` from disk to the first result, `scaling` large graphs, `tiny` what a call costs,
`loops` loops and open sizes, `gradients` and `eintup` the other languages, `no_names` formulas of
one's own, `shared_cores` calls beside busy processes.
"""
