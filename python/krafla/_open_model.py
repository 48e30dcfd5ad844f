# SPDX-License-Identifier: Apache-2.0
"""Programs that leave sizes of inputs open: made ready for the sizes that arrive."""
from __future__ import annotations

import collections
import dataclasses
import threading
from typing import Any, Callable, Collection, Mapping, Sequence

import numpy as np

from krafla._buffer import Buffer
from krafla._model import Model, Run


@dataclasses.dataclass(frozen=True)
class OpenTensor:
    """An input. An open size of `shape` is the name that the program gives it, or None; None alone: of any rank."""
    name: str
    shape: tuple[int | str | None, ...] | None
    type: str  # krafla's name of the element type: "bf16"

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.type}[{sizes}]"

    @property
    def is_open(self) -> bool:
        return self.shape is None or any(not isinstance(d, int) for d in self.shape)


class OpenModel:
    """A program of which inputs have open sizes. Made by krafla.load; each call runs the program for the shapes of its
    arguments, which is made ready when they first arrive, and kept. May be called by several threads at once."""

    def __init__(self, inputs: Sequence[OpenTensor], shapes: Mapping[str, Sequence[int]],
                 make: Callable[[Mapping[str, Sequence[int]]], Model], kept: int):
        self.inputs = tuple(inputs)
        self._fixed = {name: tuple(sizes) for name, sizes in shapes.items()}
        self._make, self._kept = make, kept
        self._models: collections.OrderedDict[tuple[tuple[int, ...], ...], Model] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"krafla.OpenModel({', '.join(map(str, self.inputs))}; ready for {len(self._models)} shapes)"

    def for_shapes(self, *args: Sequence[int], **kwargs: Sequence[int]) -> Model:
        """The model for inputs of these shapes, by position or name; those that the program states may be left out."""
        return self._model(self._by_input(args, kwargs, "shape"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs once, as Model's call does."""
        model, given, rest = self._model_of(args, kwargs)
        return model(*given, **rest)

    def submit(self, *args: Any, **kwargs: Any) -> Run:
        """The same later, as Model.submit. The program is made ready for new shapes before this returns."""
        model, given, rest = self._model_of(args, kwargs)
        return model.submit(*given, **rest)

    def run_buffers(self, *args: Any, donate: Collection[int] = (), timeout: float | None = None) -> tuple[Buffer, ...]:
        """Runs once on arrays that stay on the device, as Model.run_buffers."""
        shapes = {i: _shape_of(a) for i, a in enumerate(args)}
        return self._model(shapes).run_buffers(*args, donate=donate, timeout=timeout)

    def _by_input(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> dict[int, Any]:
        if len(args) > len(self.inputs):
            raise TypeError(f"The model takes {len(self.inputs)} inputs, {len(args)} were given.")
        out, numbers = dict(enumerate(args)), {t.name: i for i, t in enumerate(self.inputs) if t.name}
        for name, value in kwargs.items():
            if name not in numbers:
                raise TypeError(f"The model has no input {name!r}; its inputs are {', '.join(map(str, self.inputs))}.")
            if numbers[name] in out:
                raise TypeError(f"The {what} of the input {name!r} was given by position and by name.")
            out[numbers[name]] = value
        return out

    def _model_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Model, list[Any], dict[str, Any]]:
        rest = {name: value for name, value in kwargs.items() if name in ("out", "timeout")}
        given = self._by_input(args, {n: v for n, v in kwargs.items() if n not in rest}, "value")
        missing = [str(t) for i, t in enumerate(self.inputs) if i not in given]
        if missing:
            raise TypeError(f"Inputs are missing: {'; '.join(missing)}.")
        values = [given[i] for i in range(len(self.inputs))]
        return self._model({i: _shape_of(v) for i, v in enumerate(values)}), values, rest

    def _called(self, i: int) -> str:
        """By its number, which every input has, unless that is another one's name."""
        return self.inputs[i].name if any(t.name == str(i) for t in self.inputs) else str(i)

    def _model(self, given: Mapping[int, Sequence[int]]) -> Model:
        shapes = []
        for i, tensor in enumerate(self.inputs):
            fixed = self._fixed.get(str(i), self._fixed.get(tensor.name))
            shape = given.get(i, fixed if tensor.is_open else tensor.shape)
            if shape is None:
                raise TypeError(f"The shape of the input {tensor} is missing.")
            shape = tuple(int(d) for d in shape)
            if not _fits(shape, tensor.shape) or fixed not in (None, shape):
                raise ValueError(f"The input {tensor} was given with the shape {list(shape)}"
                                 f"{'' if fixed is None else f', and loaded for {list(fixed)}'}.")
            shapes.append(shape)
        key = tuple(shapes)
        with self._lock:
            model = self._models.get(key)
            if model is None:
                model = self._make({self._called(i): shape for i, shape in enumerate(shapes) if self.inputs[i].is_open})
                self._models[key] = model
                while len(self._models) > self._kept:
                    self._models.popitem(last=False)
            self._models.move_to_end(key)
        return model


def _shape_of(value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    return tuple(shape) if shape is not None else np.shape(value)


def _fits(shape: tuple[int, ...], stated: tuple[int | str | None, ...] | None) -> bool:
    return stated is None or (len(shape) == len(stated) and
                              all(not isinstance(s, int) or s == d for d, s in zip(shape, stated)))
