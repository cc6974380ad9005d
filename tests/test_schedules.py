"""The schedules against the paper's formulas, computed to fifty digits."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from revgrad.errors import InputError, UnknownNameError
from revgrad.schedules import (
    SCHEDULES,
    Annealed,
    Constant,
    RampUp,
    describe_schedule,
    parse_schedule,
)

ULP = 2.0**-52
LEAST = 2.0**-1074  # the step between numbers next to 0, below which no product is exact
progresses = st.floats(0.0, 1.0)
sizes = st.floats(-1e6, 1e6)


def ramp_to_fifty_digits(gamma: float, height: float, p: float) -> Decimal:
    with localcontext() as context:
        context.prec = 50
        power = (-Decimal(gamma) * Decimal(p)).exp()
        return Decimal(height) * (Decimal(2) / (Decimal(1) + power) - Decimal(1))


def annealed_to_fifty_digits(initial: float, alpha: float, beta: float, p: float) -> Decimal:
    with localcontext() as context:
        context.prec = 50
        base = Decimal(1) + Decimal(alpha) * Decimal(p)
        return Decimal(initial) / (Decimal(beta) * base.ln()).exp()


@given(progresses, st.floats(0.0, 100.0), st.floats(-10.0, 10.0))
@example(1.0, 1.0, 2.225073858507e-311)
def test_the_ramp_is_the_papers(p, gamma, height):
    # 2/(1+e) − 1 is rounded at size 1, so the error is absolute: a few units in the last place
    expected = ramp_to_fifty_digits(gamma, height, p)
    assert abs(Decimal(RampUp(gamma, height)(p)) - expected) <= 8 * ULP * abs(height) + LEAST


def test_the_ramp_with_the_papers_numbers():
    ramp = RampUp()
    assert (ramp.gamma, ramp.height) == (10.0, 1.0)
    assert ramp(0.0) == 0.0
    assert ramp(0.5) == pytest.approx(0.9866142981514305, abs=1e-15)  # tanh(2.5)
    assert ramp(1.0) == pytest.approx(math.tanh(5.0), abs=1e-15)
    assert ramp(1.0) < 1.0
    steps = [ramp(i / 1000) for i in range(1001)]
    assert steps == sorted(set(steps))


@given(progresses, st.floats(0.0, 1.0), st.floats(0.0, 1000.0), st.floats(-3.0, 3.0))
def test_the_annealing_is_the_papers(p, initial, alpha, beta):
    expected = annealed_to_fifty_digits(initial, alpha, beta, p)
    came = Decimal(Annealed(initial, alpha, beta)(p))
    assert abs(came - expected) <= Decimal(16 * ULP) * expected + Decimal(LEAST)


def test_the_annealing_with_the_papers_numbers():
    rate = Annealed()
    assert (rate.initial, rate.alpha, rate.beta) == (0.01, 10.0, 0.75)
    assert rate(0.0) == 0.01
    assert rate(1.0) == pytest.approx(0.01 * 11**-0.75, rel=1e-15)
    assert rate(0.1) == pytest.approx(0.01 / 2**0.75, rel=1e-15)


@given(progresses, sizes)
def test_a_constant_is_constant(p, value):
    assert Constant(value)(p) == value


@given(
    st.one_of(
        st.builds(RampUp, st.floats(0.0, 1e6), sizes),
        st.builds(Annealed, sizes, st.floats(0.0, 1e6), sizes),
        st.builds(Constant, st.floats(allow_nan=False, allow_infinity=False)),
    )
)
def test_what_is_described_is_read_back(schedule):
    assert parse_schedule(describe_schedule(schedule)) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("ramp-up", RampUp()),
        ("ramp-up:5", RampUp(5.0)),
        ("ramp-up:5,0.1", RampUp(5.0, 0.1)),
        ("annealed", Annealed()),
        ("annealed:0.01,10,0.75", Annealed(0.01, 10.0, 0.75)),
        ("annealed: 0.02", Annealed(0.02)),
        ("constant:1", Constant(1.0)),
        ("0.1", Constant(0.1)),
        (" 1e-3 ", Constant(0.001)),
        ("-1", Constant(-1.0)),
    ],
)
def test_the_texts_a_user_writes(text, schedule):
    assert parse_schedule(text) == schedule


def test_numbers_of_numpy_are_described_as_numbers():
    assert describe_schedule(RampUp(np.float64(0.1), np.float32(0.5))) == "ramp-up:0.1,0.5"


def test_a_users_callable_is_described_by_its_name():
    def mine(progress: float) -> float:
        return progress

    assert describe_schedule(mine).endswith("mine")


def test_an_unknown_schedule_gets_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'ramp-up'") as error:
        parse_schedule("rampup:3")
    for name in SCHEDULES:
        assert name in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "constant",
        "constant:x",
        "constant:1,2",
        "ramp-up:1,2,3",
        "annealed:a",
        "annealed:1,,2",
        "0.1:5",
        "ramp-up:5,",
    ],
)
def test_text_that_is_not_a_schedule(text):
    with pytest.raises(InputError) as error:
        parse_schedule(text)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["nan", "inf", "constant:nan", "ramp-up:inf", "annealed:1,nan"])
def test_numbers_that_are_not_finite(text):
    with pytest.raises(InputError, match="must be finite, not"):
        parse_schedule(text)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_schedules_are_built_of_finite_numbers(bad):
    for build in (RampUp, Annealed, Constant, lambda v: RampUp(1.0, v), lambda v: Annealed(1.0, v)):
        with pytest.raises(InputError, match=f"must be finite, not {bad}"):
            build(bad)


def test_a_negative_alpha_is_refused_with_its_own_words():
    with pytest.raises(InputError, match=r"alpha ≥ 0, not -1\.0"):
        Annealed(0.01, -1.0)
    with pytest.raises(InputError, match=r"alpha ≥ 0, not -1\.0"):
        parse_schedule("annealed:0.01,-1")


@pytest.mark.parametrize("progress", [-0.001, 1.001, math.nan, math.inf])
@pytest.mark.parametrize("schedule", [RampUp(), Annealed(), Constant(1.0)])
def test_progress_outside_zero_to_one(schedule, progress):
    with pytest.raises(InputError, match="progress runs from 0 to 1"):
        schedule(progress)


def test_a_negative_gamma_is_refused_with_its_own_words():
    with pytest.raises(InputError, match=r"gamma ≥ 0, not -1\.0"):
        parse_schedule("ramp-up:-1")


def test_a_large_gamma_neither_overflows_nor_leaves_the_range():
    assert RampUp(1e6)(1.0) == 1.0
    assert RampUp(1e300)(0.0) == 0.0


def test_a_schedule_can_not_be_changed():
    with pytest.raises(AttributeError):
        RampUp().gamma = 3.0  # type: ignore[misc]
