"""The code of a built-in function of CPython that runs a program, as LLVM text."""

from __future__ import annotations

from .threads import CELLS, IO

CALL_WORDS = 3


def call_text() -> str:
    """The module with `ricci_call`, the code of a built-in function of CPython.

    Called with arrays, or integers that are addresses of elements, for all arguments and results,
    it does what `run(instance)` does. Its `self` is an array with the words of an instance behind
    the `CALL_WORDS` addresses of `run`, of the type `int`, and of `None`.
    """
    return _CALL.replace("@IO@", str(IO)).replace("@CELLS@", str(CELLS))


_CALL = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare void @Py_IncRef(ptr)

define ptr @ricci_call(ptr %self, ptr %args, i64 %count) {
entry:
  %data.p = getelementptr ptr, ptr %self, i64 2
  %data = load ptr, ptr %data.p
  %run = load ptr, ptr %data
  %int.p = getelementptr ptr, ptr %data, i64 1
  %int = load ptr, ptr %int.p
  %none.p = getelementptr ptr, ptr %data, i64 2
  %none = load ptr, ptr %none.p
  %instance = getelementptr ptr, ptr %data, i64 3
  %io.p = getelementptr ptr, ptr %instance, i64 @IO@
  %io = load ptr, ptr %io.p
  %cells.p = getelementptr ptr, ptr %instance, i64 @CELLS@
  %cells = load ptr, ptr %cells.p
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %argument, label %go
argument:
  %arg.p = getelementptr ptr, ptr %args, i64 %k
  %arg = load ptr, ptr %arg.p
  %type.p = getelementptr ptr, ptr %arg, i64 1
  %type = load ptr, ptr %type.p
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %address, label %next
address:
  %value = call ptr @PyLong_AsVoidPtr(ptr %arg)
  %cell = getelementptr ptr, ptr %cells, i64 %k
  store ptr %value, ptr %cell
  ; what an array object would be whose third word is the address
  %object = getelementptr ptr, ptr %cell, i64 -2
  br label %next
next:
  %word = phi ptr [ %arg, %argument ], [ %object, %address ]
  %slot = getelementptr ptr, ptr %io, i64 %k
  store ptr %word, ptr %slot
  %k1 = add i64 %k, 1
  br label %loop
go:
  %state = call ptr @PyEval_SaveThread()
  call void %run(ptr %instance)
  call void @PyEval_RestoreThread(ptr %state)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}
"""
