"""The shapes of what goes in and comes out, for type checkers and readers."""

from __future__ import annotations

from typing import Literal, TypedDict

OptionValue = bool | int | float | str


class CodeRatios(TypedDict):
    """Compression rates by kind of parameter."""

    conv: float
    """Of 3 or more dimensions."""
    dense: float
    """Of 2 dimensions."""
    other: float
    """Of fewer."""


class Counts(TypedDict):
    """What this worker did in a number of steps."""

    steps: int
    """Training steps."""
    payload_bytes: int
    """What this worker encoded its gradients into, headers and padding counted."""
    gradient_bytes: int
    """What it encoded it from, as fp32."""
    code_ratio: float
    """gradient_bytes / payload_bytes: the compression rate of the papers."""
    code_ratio_by_kind: CodeRatios
    """The same by kind of parameter."""
    sent_bytes: int
    """What left this worker: the payload times the multiplier of its collective."""
    dense_bytes: int
    """The same for plain all-reduce."""
    wire_ratio: float
    """dense_bytes / sent_bytes."""
    encode_seconds: float
    """Spent encoding."""
    decode_seconds: float
    """Spent decoding."""
    wait_seconds: float
    """Spent waiting for the network."""


class Stats(Counts):
    """The counts of all steps so far, and what they are counts of."""

    method: str
    """The name that was attached."""
    plan: dict[str, str]
    """How each parameter travels."""
    loss_class: Literal["exact", "rounded", "delayed"]
    """The lossiest class of any parameter."""
    recent: Counts
    """The same counts over the last 32 steps."""


class OptionDescription(TypedDict):
    """One option of a method."""

    default: OptionValue
    rule: str
    """The values it takes, in words."""


class VariantDescription(TypedDict):
    """A method with options that are worth trying on their own."""

    options: dict[str, OptionValue]
    """Those that are not the defaults."""
    loss_class: Literal["exact", "rounded", "delayed"]
    """What becomes of a gradient: all of it arrives; all of it, rounded; a part of it later, or
    never."""
    keeps_residual: bool
    """Whether what does not arrive is kept for later steps."""


class MethodDescription(TypedDict):
    """One entry of :func:`methods`."""

    summary: str
    options: dict[str, OptionDescription]
    variants: dict[str, VariantDescription]
    """By name; the first is the method as it is by default."""
    colour: str
    """In plots."""
