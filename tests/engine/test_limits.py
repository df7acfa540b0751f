"""Factors behind limits of a sum are moved before them, and choices by sign before a conversion
leave what the conversion does."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType
from ricci.ir.nodes import Binary, Cast, Const, Expr, Local, Select, Unary
from ricci.ir.rewrite import walk
from ricci.passes.limits import before_limits

REAL = DType.FLOAT32
START = Local("acc0", Const(0, DType.INT32))
PART = Binary("add", Cast(REAL, START), Const(0.25, REAL))


def number(value: float, dtype: DType = REAL) -> Const:
    return Const(value, dtype)


def sign(part: Expr, below: Expr, other: Expr, op: str = "lt") -> Select:
    return Select(Binary(op, part, number(0.0)), below, other)


def divided(expr: Expr, by: float = 0.3) -> Binary:
    return Binary("div", expr, number(by))


RELU6 = sign(PART, number(0.0), Binary("min", PART, number(6.0)))
BOTH = Binary("min", Binary("max", PART, number(-2.5)), number(3.7))
CHOICE = Select(Binary("ge", number(0.0), PART), Binary("max", PART, number(-1.5)), PART)
OTHER = Cast(REAL, START)


def value_of(expr: Expr, part: np.float32, at: Expr = PART) -> np.float32:
    """The value of an expression, in the arithmetic of its type."""
    if expr is at:
        return part
    match expr:
        case Const(value=value):
            return np.float32(float(value))
        case Select(condition=condition, then=then, otherwise=otherwise):
            assert isinstance(condition, Binary)
            a, b = (value_of(x, part, at) for x in (condition.lhs, condition.rhs))
            holds = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[condition.op]
            return value_of(then if holds else otherwise, part, at)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            a, b = value_of(lhs, part, at), value_of(rhs, part, at)
            make = {"min": np.minimum, "max": np.maximum, "mul": np.multiply, "div": np.divide}
            return np.float32(make[op](a, b))
    raise AssertionError(expr)


@pytest.mark.parametrize("limits", [RELU6, BOTH, CHOICE, sign(PART, number(0.0), PART, "le")])
@pytest.mark.parametrize("op", ["div", "mul"])
@pytest.mark.parametrize("by", [0.3, 0.0235294122248888, 7.0, 1000.0])
def test_the_number_is_the_same(limits: Expr, op: str, by: float) -> None:
    whole = Binary(op, limits, number(by))
    moved = before_limits(whole, PART)
    assert moved is not whole
    assert not any(isinstance(n, Binary) and n.op == op and n.lhs is limits for n in walk(moved))
    (inner,) = (n for n in walk(moved) if isinstance(n, Binary) and n.op == op)
    assert inner.lhs is PART
    values = np.concatenate(
        [
            np.random.default_rng(0).normal(0, 4, 2000),
            [0.0, 6.0, -2.5, 3.7, np.nextafter(np.float32(6), 7), 1e-30, -1e-30, 1e30, -1e30],
        ]
    )
    for x in values.astype(np.float32):
        assert value_of(moved, x) == value_of(whole, x)
    assert np.isnan(value_of(moved, np.float32(np.nan))) == np.isnan(
        value_of(whole, np.float32(np.nan))
    )


def test_a_factor_may_be_on_either_side() -> None:
    whole = Binary("mul", number(3.0), RELU6)
    assert before_limits(whole, PART) is not whole
    under = Binary("div", number(3.0), RELU6)
    assert before_limits(under, PART) is under


@pytest.mark.parametrize(
    "whole",
    [
        divided(RELU6, -0.3),
        divided(RELU6, 0.0),
        divided(RELU6, 1e-7),
        divided(RELU6, 1e7),
        divided(PART),
        divided(sign(PART, Unary("neg", PART), PART)),
        divided(Select(Binary("lt", PART, number(1.0)), number(1.0), PART)),
        divided(Select(Binary("eq", PART, number(0.0)), number(0.0), PART)),
        divided(sign(PART, number(1.0), PART)),
        divided(sign(PART, PART, Binary("max", PART, number(0.5)), "gt")),
        divided(Select(Binary("lt", OTHER, number(0.0)), number(0.0), PART)),
        divided(Binary("min", PART, OTHER)),
        Binary("div", RELU6, PART),
        Binary("add", RELU6, number(1.0)),
    ],
    ids=[
        "negative", "by zero", "tiny", "huge", "no limit", "not a limit", "another order",
        "no order", "a jump", "a jump of a limit", "by another part", "another part", "no number",
        "a sum",
    ],
)  # fmt: skip
def test_nothing_else_is_moved(whole: Expr) -> None:
    assert before_limits(whole, PART) is whole


LINEAR = "quant.zero_point_linear_quantize"


def quantised(body: str, scale: float, channels: int, groups: int) -> ricci.Model:
    """A convolution of bytes and what follows it, whose result is one of bytes, too."""
    model = ricci.parse(
        f"""
        import nn, math, quant;
        graph G {{
            @input {{ x: real[1, {channels}, 9, 9]; }}
            @output {{ y: real[1, 32, 9, 9]; }}
            @variable {{ w: real[32, {channels // groups}, 3, 3]; b: real[32]; }}
            @compose {{ {body} }}
            @quantize {{
                x: {LINEAR}{{zero_point=0, scale=0.03125, bits=8, signed=false}};
                w: {LINEAR}{{zero_point=0, scale=0.015625, bits=8, symmetric=true}};
                y: {LINEAR}{{zero_point=0, scale={scale}, bits=8, signed=false}};
            }}
        }}
        """,
        "skriptnd",
    )
    rng = np.random.default_rng(channels)
    model.variables["main.G.w"] = rng.uniform(-1, 1, (32, channels // groups, 3, 3)).astype("f")
    model.variables["main.G.b"] = rng.uniform(-1, 1, 32).astype("f")
    return model


CONV = "nn.conv{{padding=1, groups={0}}}(x, w, b)"


@pytest.mark.parametrize("groups", [1, 32], ids=["all channels", "each by itself"])
@pytest.mark.parametrize("body", ["nn.relu{max=6.0}", "nn.relu", "nn.relu{max=2.0}"])
def test_steps_behind_a_rectifier_are_no_division(groups: int, body: str) -> None:
    """Nothing is divided, and results differ where they are half way between two steps alone."""
    model = quantised(f"c = {CONV.format(groups)}; y = {body}(c);", 0.0235294, 32, groups)
    loops = model.quantized().show("loops")
    (line,) = (
        x for x in loops.splitlines() if "quantized`[" in x and "round(" in x and "acc0" in x
    )
    assert ") / " not in line and line.count("float32(acc0) * ") == 2
    x = np.random.default_rng(1).uniform(0, 4, (1, 32, 9, 9)).astype(np.float32)
    native = np.asarray(model.compile(quantize=True)(x))
    meant = np.asarray(model.compile("interpreter", quantize=True)(x))
    steps = np.abs(native - meant) / 0.0235294
    assert steps.max() < 1.01 and (steps > 0.5).mean() < 1e-3
    assert len(np.unique(meant)) > 50


CHOICES = [
    ("z(i) < 0.0 ? 0.0 : min(x(i), 6.0)", 2),
    ("0.0 < x(i) ? 0.0 : x(i)", 1),
    ("x(i) >= 0.0 ? 0.0 : min(x(i), 6.0)", 2),
    ("x(i) == 0.0 ? x(i) : 0.0", 2),
    ("x(i) < 0.0 ? 5.0 : x(i)", 2),
    ("x(i) > 0.0 ? x(i) : 7.0", 2),
    ("x(i) < 0.0 ? 0.5 * x(i) : x(i)", 2),
    ("x(i) < 0.0 ? 3.0 : min(x(i), 6.0)", 2),
    ("x(i) < 0.0 ? 0.0 : min(x(i), -2.0)", 2),
    ("x(i) < 0.0 ? 0.0 : x(i)", 1),
    ("x(i) < 0.0 ? 0.0 : min(x(i), 6.0)", 1),
    ("x(i) <= 0.0 ? 0.0 : min(6.0, x(i))", 1),
    ("0.0 > x(i) ? 0.0 : min(min(x(i), 9.0), 7.0)", 1),
    ("0.0 < x(i) ? min(x(i), 4.0) : 0.0", 1),
]
"""Choices by sign, and how often a vector is compared with zero: by them, and by the lower limit of
a conversion to bytes without a sign."""


@pytest.mark.parametrize(("choice", "compared"), CHOICES)
def test_a_choice_by_sign_before_a_conversion(choice: str, compared: int) -> None:
    """What is zero below zero is what the conversion's lower limit makes of it anyway."""
    body = f"float(N) z) -> (y) {{ y(i) = uint8(round({choice})) }}"
    f = ricci.parse(f"def f(float(N) x, {body}", "tc")
    numbers = [-300, -3.0, -1.0, -0.5, -0.2, -0.0, 0, 0.2, 0.5, 1.5, 3, 6.5, 254.6, 300]
    x = np.array([*numbers, np.nan, np.inf, -np.inf] * 5, np.float32)
    z = np.random.default_rng(0).normal(0, 1, x.shape).astype(np.float32)
    assert np.array_equal(f.compile()(x, z), f.compile("interpreter")(x, z))
    narrow = ricci.parse(f"def f(float(N) x, {body.replace('uint8', 'int8')}", "tc")
    assert np.array_equal(narrow.compile()(x, z), narrow.compile("interpreter")(x, z))
    known = ricci.parse(f"def f(float(64) x, {body.replace('N', '64')}", "tc")
    text = known.show("llvm", target="x86-64-v4")
    zero = "splat (float 0x0000000000000000)"
    compares = [line for line in text.splitlines() if "fcmp o" in line and line.endswith(zero)]
    stores = [line for line in text.splitlines() if " store <16 x i8>" in line]
    assert len(stores) == 4
    assert len(compares) == 4 * compared
