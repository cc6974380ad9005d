"""Digits by pen: the right number of holes and parts, strokes as broad as the hand says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import label

from revgrad.domains.fonts import REACH, glyphs
from revgrad.domains.pen import HANDS, Hand, inks
from revgrad.domains.syn_numbers import SynNumbers, draw

SIDE, HEIGHT = 256, 160
#: Of 0 … 9, the 4 closed.
HOLES = (1, 0, 0, 0, 1, 0, 1, 0, 2, 1)


def parts(ink: np.ndarray) -> tuple[int, int]:
    """How many pieces of ink, and how many holes in them."""
    touching = np.ones((3, 3))
    return label(ink, touching)[1], label(~ink)[1] - 1


def box(ink: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    return rows[0], rows[-1], columns[0], columns[-1]


@pytest.mark.parametrize("hand", HANDS, ids=lambda hand: hand.name)
def test_every_hand_writes_digits_that_can_be_told_apart(hand: Hand) -> None:
    written = inks(hand, SIDE, HEIGHT)
    assert len(written) == 10
    for digit, ink in enumerate(written):
        pieces, holes = parts(ink)
        wanted = 0 if digit == 4 and hand.four == "open" else HOLES[digit]
        assert (digit, holes) == (digit, wanted)
        # an open 4's stem crosses its bar; nothing else is in pieces either
        assert (digit, pieces) == (digit, 1)
        top, bottom, left, right = box(ink)
        assert HEIGHT * 0.9 < bottom - top + 1 < HEIGHT * 1.16, digit
        assert right - left + 1 < HEIGHT * hand.width * 1.16, digit
        assert abs(top + bottom - SIDE) < 0.1 * HEIGHT, digit
    shapes = {ink.tobytes() for ink in written}
    assert len(shapes) == 10


def test_hands_differ() -> None:
    assert len(set(HANDS)) == len(HANDS)
    assert {hand.three for hand in HANDS} == {"round", "flat"}
    assert {hand.one for hand in HANDS} == {"bare", "flag", "foot"}
    assert {hand.four for hand in HANDS} == {"closed", "open"}
    assert {hand.six for hand in HANDS} == {"curled", "straight"}
    assert {hand.seven for hand in HANDS} == {"straight", "curved", "barred"}


@pytest.mark.parametrize("thin", [1.0, 0.4])
def test_the_pen_is_as_broad_as_its_direction_says(thin: float) -> None:
    """Counted in pixels across a bare 1 and down through the bar of a 7."""
    hand = Hand(stem=0.2, thin=thin, one="bare")
    written = inks(hand, SIDE, HEIGHT)
    assert written[1][SIDE // 2].sum() == pytest.approx(0.2 * HEIGHT, abs=2)
    _, _, left, right = box(written[7])
    column = written[7][:, left + (right - left) // 3]
    assert column[: SIDE // 2].sum() == pytest.approx(0.2 * thin * HEIGHT, abs=2)


def test_forms() -> None:
    hand = Hand(stem=0.12)
    width = HEIGHT * hand.width
    # the first rows below the top: a bar, or the top of a round
    for three, least, most in (("flat", 0.6, 1), ("round", 0, 0.5)):
        ink = inks(replace(hand, three=three), SIDE, HEIGHT)[3]
        top = box(ink)[0]
        assert least * width < ink[top + 3].sum() < most * width, three
    curled = inks(hand, SIDE, HEIGHT)
    turned = curled[6][::-1, ::-1]
    assert (turned ^ curled[9]).mean() < 0.01  # a 9 is a 6 upside down, but for rounding
    balls = inks(replace(hand, ball=2.0), SIDE, HEIGHT)
    for digit in range(10):
        grown = int(balls[digit].sum()) - int(curled[digit].sum())
        assert (grown > 50) == (digit in (2, 3, 5, 6, 9)), digit
    serifs = inks(replace(hand, serif=0.2), SIDE, HEIGHT)
    assert [d for d in range(10) if serifs[d].sum() > curled[d].sum()] == [1, 2, 4, 5, 7]


def test_fields_are_of_the_ink() -> None:
    hand = HANDS[3]
    drawn = glyphs([hand])
    side = drawn.fields.shape[-1]
    for digit, ink in enumerate(inks(hand, SIDE, HEIGHT)):
        blocks = ink.reshape(side, SIDE // side, side, SIDE // side).mean(axis=(1, 3))
        sure = (blocks < 0.1) | (blocks > 0.9)
        assert ((drawn.fields[0, digit] > 0) == (blocks > 0.5))[sure].all()
        _, _, left, right = box(ink)
        assert drawn.widths[0, digit] == pytest.approx((right - left + 1) / HEIGHT)
    assert REACH == SIDE / HEIGHT


def test_the_share_of_numbers_by_pen() -> None:
    """Faces that are one hand's or another's: which was taken shows in the ink."""
    few = glyphs([*HANDS])
    empty = few._replace(fields=np.full_like(few.fields[:5], -1), widths=few.widths[:5])
    empty = empty._replace(middles=few.middles[:5] * 0)
    both = few._replace(
        fields=np.concatenate([empty.fields, few.fields]),
        widths=np.concatenate([empty.widths, few.widths]),
        middles=np.concatenate([empty.middles, few.middles]),
    )
    calm = SynNumbers(contrast=(0.5, 0.5), light=0, noise=(1e-6, 1e-6), outline=0, shadow=0)
    for share in (0.0, 0.3, 1.0):
        known = both if share else empty  # without a pen no hands are given
        images, _ = draw(np.arange(1000), replace(calm, pen=share), known)
        written = np.ptp(images.mean(axis=3), axis=(1, 2)) > 40
        assert written.mean() == pytest.approx(share, abs=0.05)
