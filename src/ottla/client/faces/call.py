"""One declaration of a call for both faces of the client.

A class of calls has stories as its methods. Its blocking face runs a story and returns the result; its asyncio face
returns a coroutine. Both have the story's name, signature and docstring. A wrong keyword is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from ottla.client.core.effects import ClientStory
from ottla.client.core.plan import ClusterPlan
from ottla.client.settings import require_known

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Blocking:
    """A face whose calls return their results. A context manager that closes at its end."""

    def _run(self, story: ClientStory[T]) -> T:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Awaited:
    """A face whose calls are awaited. An async context manager that closes at its end."""

    async def _run(self, story: ClientStory[T]) -> T:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Call(Protocol[P, R_co]):
    """The type of a call: the face that it is called on decides whether its result is awaited."""

    @overload
    def __get__(self, face: Blocking, owner: type | None = None) -> Callable[P, R_co]: ...
    @overload
    def __get__(self, face: Awaited, owner: type | None = None) -> Callable[P, Coroutine[Any, Any, R_co]]: ...


def call(story: Callable[Concatenate[Any, P], ClientStory[R]]) -> Call[P, R]:
    """A story that takes the face itself as a call of it. Other calls of the face are not for stories."""
    method: Call[P, R] = _method(story, lambda face: face)
    return method


def on_plan(story: Callable[Concatenate[ClusterPlan, P], ClientStory[R]]) -> Call[P, R]:
    """A story that takes the plan of a cluster as a call of a face that has a `cluster`."""
    method: Call[P, R] = _method(story, lambda face: face.cluster.plan)
    return method


def _method(story: Callable[..., Any], subject: Callable[[Any], Any]) -> Any:
    lists = _lists(story)

    @wraps(story)
    def method(face: Any, /, *arguments: Any, **named: Any) -> Any:
        for at, name in lists:
            given = arguments[at] if at < len(arguments) else named.get(name)
            if isinstance(given, str | bytes):
                raise TypeError(f"{name} is a list, such as [{given!r}], not {given!r} alone")
        try:
            begun = story(subject(face), *arguments, **named)
        except TypeError:
            _refuse_unknown(story, named)
            raise
        return face._run(begun)

    method.__signature__ = _of_a_face(story)  # type: ignore[attr-defined]
    return method


def keywords(method: F) -> F:
    """A method that only one face has, or that asks no broker: it refuses a wrong keyword by name, too."""

    @wraps(method)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except TypeError:
            _refuse_unknown(method, named)
            raise

    return checked  # type: ignore[return-value]


def refuse(method: Callable[..., Any], unknown: Mapping[str, object]) -> None:
    """Refuse keywords that a method took as `unknown`: one that is called for every record goes without `keywords`."""
    names = [name for name, each in signature(method).parameters.items() if each.kind is not Parameter.VAR_KEYWORD]
    require_known(method.__name__, unknown, names[1:], what="keyword")


def _refuse_unknown(method: Callable[..., Any], named: dict[str, Any]) -> None:
    require_known(method.__name__, named, list(signature(method).parameters)[1:], what="keyword")


def _lists(story: Callable[..., Any]) -> list[tuple[int, str]]:
    """Positions and names of the parameters that take several names: text, a collection of letters, is not meant."""
    code = story.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    places = [at if at < code.co_argcount - 1 else len(names) for at in range(len(names))]
    kinds = story.__annotations__
    return [pair for pair in zip(places, names, strict=True) if str(kinds[pair[1]]).startswith("Collection[")]


def _of_a_face(story: Callable[..., Any]) -> Any:
    """The signature of a story as a method has it."""
    declared = signature(story)
    subject, *others = declared.parameters.values()
    return declared.replace(parameters=[subject.replace(name="self", annotation=Parameter.empty), *others])
