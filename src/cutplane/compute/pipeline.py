"""Numba's compiler, less what it does again and again for our kernels.

Two thirds of the time that a kernel takes to compile are Numba's own, and much of that is avoidable
(docs/why-it-is-fast.md, Compilation):

- For each operation on each line, type inference tries one after another all that Numba knows for
  an operator (strings, sets, dates, ...), thousands of times with the same few types of arguments.
  Here what was found is remembered.
- ``max`` and ``min`` of numbers are functions in Python, compiled anew for each set of options.
  Here they are the comparison that these end in.
- Numba imports all of itself again, hundreds of times for each kernel, to see whether there is
  something new. Here it does so once.
- A kernel that only kernels call is optimized and translated to machine code, and then once more
  as a part of the one that calls it. Here it is handed on as it is.

A kernel has the same operations as with Numba's own compiler.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.typing.templates import signature
from numba.cpython.builtins import do_minmax
from numba.extending import intrinsic

# Of these arguments a function's type depends on nothing else.
_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array, types.UniTuple)

# What was found for options of the compiler (none where they make no difference), function and
# arguments: signature, implementation.
_found: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def _comparison(first_if: Any) -> Any:
    """Return what Numba can put in place of ``max`` or ``min`` of numbers."""

    def choose(context: Any, a: Any, b: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            return do_minmax(target, builder, signature.args, args, first_if)  # type: ignore[no-untyped-call]

        both = types.unliteral(a), types.unliteral(b)  # type: ignore[no-untyped-call]
        return signature(context.unify_types(*both), *both), generate  # type: ignore[no-untyped-call]

    return intrinsic(choose)


_COMPARISONS = {max: _comparison(operator.gt), min: _comparison(operator.lt)}


class Pipeline(CompilerBase):
    """Numba's ordinary passes, with ours in place of two of them."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes, in order."""
        plan = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        ours = {NopythonTypeInference: _Typing, NativeLowering: _Lowering}
        plan.passes = [(ours.get(step, step), text) for step, text in plan.passes]
        plan.finalize()
        return [plan]

    def compile_extra(self, function: Any) -> Any:
        """Compile a kernel; both contexts were brought up to date when this object was made."""
        with _up_to_date(self.state.typingctx), _up_to_date(self.state.targetctx):
            return super().compile_extra(function)  # type: ignore[no-untyped-call]


@contextmanager
def _up_to_date(context: Any) -> Iterator[None]:
    """Let a context look for what is new only in the lists that it knows, not for other lists."""
    outermost = "load_additional_registries" not in vars(context)

    def look() -> None:
        for registry in list(context._registries):
            context.install_registry(registry)

    if outermost:
        context.load_additional_registries = look
    try:
        yield
    finally:
        if outermost:
            del context.load_additional_registries


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Typing(NopythonTypeInference):
    """Type inference that remembers."""

    _name = "remembered_type_inference"

    def run_pass(self, state: Any) -> bool:
        context = state.typingctx
        state.typingctx = _Remembering(context, state.flags)
        try:
            return bool(super().run_pass(state))  # type: ignore[no-untyped-call]
        finally:
            state.typingctx = context


class _Remembering:
    """Numba's typing context, asked once for each function with the same types of arguments."""

    def __init__(self, context: Any, flags: Any) -> None:
        self._context = context
        # Functions that Numba has in Python are compiled for each set of options.
        self._options = tuple(map(str, flags.values().items()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        if function is operator.getitem:
            function = self._context.resolve_value_type(function)
        plain = type(function) is types.Function and not kws
        if not (plain and all(isinstance(arg, _PLAIN) for arg in args)):
            return self._context.resolve_function_type(function, args, kws)
        question = function, tuple(args)
        for key in ((), *question), (self._options, *question):
            if key in _found:
                signature, implementation = _found[key]
                function._impl_keys[signature.args] = implementation
                return signature
        asked = function
        if function.typing_key in _COMPARISONS and _are_two_numbers(args):
            asked = self._context.resolve_value_type(_COMPARISONS[function.typing_key])
        signature = self._context.resolve_function_type(asked, args, kws)
        if signature is not None:
            implementation = asked.get_impl_key(signature)
            function._impl_keys[signature.args] = implementation
            in_python = implementation is not function.typing_key and asked is function
            _found[self._options if in_python else (), *question] = signature, implementation
        return signature

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        """Return the signature of an assignment to an entry."""
        function = self._context.resolve_value_type(operator.setitem)
        return self.resolve_function_type(function, (target, index, value), {})


def _are_two_numbers(args: tuple[Any, ...]) -> bool:
    numbers = [arg for arg in map(types.unliteral, args) if isinstance(arg, types.Number)]
    return len(args) == len(numbers) == 2


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(NativeLowering):
    """Translation to LLVM's language, and on to machine code where Python calls the kernel."""

    _name = "lowering_of_inner_kernels"

    def run_pass(self, state: Any) -> bool:
        if state.flags.no_cpython_wrapper:
            library: Any = _InnerLibrary
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


class _InnerLibrary(JITCodeLibrary):
    """The code of a kernel that others call: neither optimized nor translated on its own."""

    @property
    def codegen(self) -> Any:
        """What makes machine code, here none."""
        return _NoMachineCode(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """Return where the machine code of a function is: nowhere."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True


class _NoMachineCode:
    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: only code that is in memory has a place for it."""
