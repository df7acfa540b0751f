"""Programs as operators of PyTorch, with gradients: they can be trained through and compiled.

    gconv = ricci.torch.custom_op("mine::gconv", ricci.tc.define(TEXT).gconv)
    gconv(images, weights, biases).sum().backward()

An operator is registered with PyTorch: with its shapes for tensors that are not there (fake ones),
and with its gradient. So it works under `torch.compile(fullgraph=True)` without a break.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

try:
    import torch
    from torch import library as registry
except ModuleNotFoundError as problem:
    raise ImportError("ricci.torch needs PyTorch: pip install 'ricci[torch]'") from problem

from .diagnostics import error
from .ir.nodes import Binary, Const, Expr, Graph, Operation, Select, Symbol, Tensor, Unary
from .ir.shapes import affine
from .passes.gradient import cotangent_names, gradient_graph
from .passes.gradient_pair import forward_and_backward
from .runtime.executable import Executable, compile_graph
from .torch_eager import make_eager, torch_dtype

if TYPE_CHECKING:
    from .eintup import EinsumTuple
    from .model import Model
    from .tc import Comprehension

    Program = Comprehension | Model | EinsumTuple

__all__ = ["custom_op", "make_autograd"]

Tensors = Sequence[torch.Tensor]


def custom_op(
    name: str,
    program: Program,
    wrt: Sequence[str] | None = None,
    backward: Callable[..., Any] | None = None,
    threads: int | None = None,
) -> Callable[..., Any]:
    """A program as an operator of PyTorch, called with a tensor per input.

    `name` is `namespace::name`. `wrt` are the inputs that gradients are wanted for: all real ones
    if none are named. The gradient is derived from the formulas; or it is `backward`, a function of
    tensors, also registered with PyTorch, that is given all inputs and the gradients of all real
    outputs, and returns the gradient of each input in `wrt`, or a tuple of them. Variables of a
    model have the values that they have now; an Einsum Tuple program has its ranks fixed
    (`EinsumTuple.at`), and the dims that no shape of an input gives. Raises `Error` E0801 for a
    name that is none or taken, or a program with packs; E0805 for what has no gradient.
    """
    return _Operator(name, program, wrt, backward, threads).register()


def make_autograd(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors with a gradient written by hand.

    `backward` is given the inputs of `forward` and the gradient of each output, and returns a
    gradient for each real input, in order. Both may be functions of `ricci.tc.define`.
    """

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> Any:
            ctx.save_for_backward(*inputs)
            result = forward(*(i.detach() for i in inputs))
            return tuple(result) if isinstance(result, (tuple, list)) else result

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            inputs = ctx.saved_tensors
            found = backward(*inputs, *(g.contiguous() for g in gradients))
            rest = iter(found if isinstance(found, (tuple, list)) else (found,))
            return tuple(next(rest) if i.is_floating_point() else None for i in inputs)

    def apply(*inputs: torch.Tensor) -> Any:
        return cast(Any, Function).apply(*inputs)

    return apply


class _Operator:
    """What is registered: the program; the program with residuals; and its gradient."""

    def __init__(
        self,
        name: str,
        program: Program,
        wrt: Sequence[str] | None,
        backward: Callable[..., Any] | None,
        threads: int | None,
    ) -> None:
        namespace, colons, short = name.partition("::")
        if not (colons and namespace.isidentifier() and short.isidentifier()):
            raise error("E0801", f"`{name}` is not the name of an operator", help="namespace::name")
        if hasattr(getattr(torch.ops, namespace), short):
            raise error("E0801", f"there is an operator `{name}` already")
        graph = program.graph
        for port in (*graph.inputs, *graph.outputs):
            if port.packed or len(port.tensors) != 1:
                raise error("E0801", f"`{port.name}` is not one tensor, so this is no operator")
        self.name = name
        self.graph = graph
        self.threads = threads
        self.variables = _variables(program)
        self.by_hand = backward
        self.inputs = [p.name for p in graph.inputs]
        real = [p.name for p in graph.inputs if p.tensors[0].dtype.is_real]
        self.wrt = real if wrt is None else list(wrt)

    def register(self) -> Callable[..., Any]:
        plain = self._define(self.name, self.graph)
        if not self.wrt:
            return plain
        if self.by_hand is not None:
            self._differentiate(self.name, self._gradient_by_hand)
            return plain
        self._recompute()
        forward, backward = forward_and_backward(self.graph, self.wrt)
        kept = [p.name for p in forward.outputs]
        whole = self._define(f"{self.name}_forward", forward)
        gradient = self._define(f"{self.name}_backward", backward)
        wanted = [p.name for p in backward.inputs]

        def derived(inputs: Tensors, outputs: Tensors, cotangents: Mapping[str, Any]) -> Any:
            known = {**dict(zip(self.inputs, inputs, strict=True)), **cotangents}
            known |= dict(zip(kept, outputs, strict=True))
            return gradient(*(known[n] for n in wanted))

        self._differentiate(f"{self.name}_forward", derived)
        count = len(self.graph.outputs)
        eager = make_eager(self.graph, self.wrt, forward, backward, self._implement)

        def call(*inputs: torch.Tensor) -> Any:
            if not (torch.is_grad_enabled() and any(i.requires_grad for i in inputs)):
                return plain(*inputs)
            if _is_eager(inputs):
                return eager(*inputs)
            results = whole(*inputs)
            if not isinstance(results, (tuple, list)):
                return results
            return results[0] if count == 1 else tuple(results[:count])

        call.__name__ = call.__qualname__ = self.name.partition("::")[2]
        return call

    def _recompute(self) -> None:
        """Let the operator itself have a gradient, which does again what it needs."""
        graph = gradient_graph(self.graph, self.wrt)
        gradient = self._define(f"{self.name}_gradient", graph)

        def derived(inputs: Tensors, outputs: Tensors, cotangents: Mapping[str, Any]) -> Any:
            return gradient(*inputs, *cotangents.values())

        self._differentiate(self.name, derived)

    def _gradient_by_hand(
        self, inputs: Tensors, outputs: Tensors, cotangents: Mapping[str, torch.Tensor]
    ) -> Any:
        assert self.by_hand is not None
        return self.by_hand(*inputs, *cotangents.values())

    # ------------------------------------------------------------- registration

    def _define(self, name: str, graph: Graph) -> Callable[..., Any]:
        """Register a graph as an operator without gradient; the operator."""
        namespace, _, short = name.partition("::")
        library = _LIBRARY(namespace, "FRAGMENT")
        _LIBRARIES.append(library)
        taken = ", ".join(f"Tensor x{k}" for k in range(len(graph.inputs)))
        given = ", ".join(["Tensor"] * len(graph.outputs))
        given = given if len(graph.outputs) == 1 else f"({given})"
        library.define(f"{short}({taken}) -> {given}", tags=(torch.Tag.pt2_compliant_tag,))
        run = self._implement(graph)

        def compute(*tensors: torch.Tensor) -> Any:
            result = run(*tensors)
            return tuple(result) if isinstance(result, tuple) else result

        library.impl(short, compute, "CPU")
        registry.register_fake(name, _fake(graph), lib=library)
        return cast(Callable[..., Any], getattr(getattr(torch.ops, namespace), short))

    def _implement(self, graph: Graph) -> Callable[..., Any]:
        """What computes a graph; it is compiled when it is first called."""
        made: list[Executable] = []
        variables = {t.name for t in graph.variables}
        own = {name: value for name, value in self.variables.items() if name in variables}

        def run(*tensors: torch.Tensor) -> Any:
            if not made:
                strided = _is_plain(graph)
                made.append(compile_graph(graph, own, "cpu", self.threads, strided=strided))
            again = made[0].again(tensors)
            return made[0](*tensors) if again is None else again

        return run

    def _differentiate(self, name: str, gradient: Callable[..., Any]) -> None:
        """Register the gradient of an operator."""
        real = [p.tensors[0].dtype.is_real for p in self.graph.outputs]
        names = cotangent_names(self.graph).values()

        def remember(ctx: Any, inputs: Tensors, output: Any) -> None:
            outputs = output if isinstance(output, (tuple, list)) else (output,)
            ctx.save_for_backward(*inputs, *outputs)

        def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
            saved = ctx.saved_tensors
            count = len(self.inputs)
            given = [c for c, is_real in zip(cotangents, real, strict=False) if is_real]
            named = dict(zip(names, given, strict=True))
            found = gradient(saved[:count], saved[count:], named)
            all_found = found if isinstance(found, (tuple, list)) else (found,)
            of = dict(zip(self.wrt, all_found, strict=True))
            return tuple(of.get(n) for n in self.inputs)

        registry.register_autograd(name, backward, setup_context=remember, lib=_LIBRARIES[-1])


_LIBRARY: Any = registry.Library  # it is not typed
_LIBRARIES: list[Any] = []
"""An operator lives as long as what it was defined in."""


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_eager(tensors: Tensors) -> bool:
    """Whether nobody traces, transforms or records a call with these tensors."""
    if torch.compiler.is_compiling():
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or not tensor.is_cpu:
            return False
    inside: Any = torch._C
    return not (inside._len_torch_dispatch_stack() or inside._are_functorch_transforms_active())


def _variables(program: Program) -> Mapping[str, Any]:
    from .model import Model

    return program.variables.known() if isinstance(program, Model) else {}


def _is_plain(graph: Graph) -> bool:
    """Whether arguments can be read where they are, whatever their strides."""
    steps = all(isinstance(step, Operation) for step in graph.operations)
    return steps and all(s.bound is None for s in graph.symbols)


# --------------------------------------------------------------------- shapes


def _fake(graph: Graph) -> Callable[..., Any]:
    """What gives tensors of the right shapes, with nothing in them; sizes may be symbols."""
    inputs = [p.tensors[0] for p in graph.inputs]
    outputs = [p.tensors[0] for p in graph.outputs]

    def make(*tensors: torch.Tensor) -> Any:
        sizes = _bind(inputs, tensors)
        results = [
            tensors[0].new_empty([_evaluate(e, sizes) for e in t.shape], dtype=torch_dtype(t.dtype))
            for t in outputs
        ]
        return results[0] if len(results) == 1 else tuple(results)

    return make


def _bind(inputs: Sequence[Tensor], tensors: Tensors) -> dict[Symbol, Any]:
    """The sizes that the shapes of tensors define: of an extent that is one, or linear in one."""
    sizes: dict[Symbol, Any] = {}
    pairs = [
        (extent, size)
        for declared, tensor in zip(inputs, tensors, strict=True)
        for extent, size in zip(declared.shape, tensor.shape, strict=True)
    ]
    for extent, size in pairs:
        if isinstance(extent, Symbol):
            sizes.setdefault(extent, size)
    for extent, size in pairs:
        form = affine(extent)
        if form is None:
            continue
        terms = {s: k for s, k in form[0].items() if isinstance(s, Symbol)}
        new = [s for s in terms if s not in sizes]
        if len(new) == 1:
            known = sum(k * sizes[s] for s, k in terms.items() if s is not new[0])
            sizes[new[0]] = (size - form[1] - known) // terms[new[0]]
    return sizes


def _evaluate(expr: Expr, sizes: Mapping[Symbol, Any]) -> Any:
    """An extent, in numbers that may be symbols of PyTorch."""
    match expr:
        case Const():
            return expr.value
        case Symbol():
            return sizes[expr]
        case Unary():
            return -_evaluate(expr.operand, sizes)
        case Select():
            chosen = expr.then if _evaluate(expr.condition, sizes) else expr.otherwise
            return _evaluate(chosen, sizes)
        case Binary():
            return _OPERATORS[expr.op](_evaluate(expr.lhs, sizes), _evaluate(expr.rhs, sizes))
        case _:
            raise AssertionError(f"{type(expr).__name__} in an extent")


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
