"""Options are written once: as fields, from which help, recipe and the repeating command come."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from revgrad.adapter import POLICIES
from revgrad.cli import app
from revgrad.cli.options import option_words, spread_options
from revgrad.cli.train_options import TrainOptions
from revgrad.cli.tune import TuneOptions
from revgrad.diagnostics.recorder import EVIDENCE_SAMPLES
from revgrad.domains.domain import HELD_OUT
from revgrad.domains.image_files import FITS
from revgrad.errors import InputError
from revgrad.recipes import AUTO, PAPER, RECIPES, STANDARDISED, Recipe
from revgrad.schedules import Annealed, Constant, RampUp, parse_schedule
from revgrad.training.run import Provenance
from revgrad.training.settings import SCHEDULED, Settings


def parsed(text: str) -> TrainOptions:
    """The options that `revgrad train` would get."""
    got: list[TrainOptions] = []

    def take(options: TrainOptions) -> None:
        got.append(options)

    holder = typer.Typer()
    holder.command()(spread_options(take))
    result = CliRunner().invoke(holder, [*shlex.split(text), "-o", "run"])
    assert result.exit_code == 0, result.output
    return got[0]


def shown_defaults() -> dict[str, Any]:
    """By option, what the help shows where the recipe decides."""
    hints = get_type_hints(TrainOptions, include_extras=True)
    infos = {name: get_args(hint)[-1] for name, hint in hints.items()}
    return {name: info.show_default for name, info in infos.items()}


def commands() -> dict[str, list[str]]:
    found = typer.main.get_command(app)
    context = typer.Context(found)
    names = ("train", "tune")
    return {
        name: [p.opts[0] for p in found.get_command(context, name).params]  # type: ignore[attr-defined]
        for name in names
    }


def test_the_options_people_use_come_first() -> None:
    first = commands()["train"][:12]
    expected = "source target test network layer size recipe steps seed baseline output config"
    assert first == [f"--{name}" for name in expected.split()]


def test_tune_lists_its_own_options_and_all_of_train() -> None:
    names = commands()
    own = {f"--{item.name.replace('_', '-')}" for item in fields(TuneOptions)}
    assert set(names["tune"]) == own | set(names["train"])
    assert len(names["tune"]) == len(set(names["tune"]))


def test_every_setting_is_an_option_or_left_out_on_purpose() -> None:
    options = {item.name for item in fields(TrainOptions)}
    assert {item.name for item in fields(Settings)} - options == {"channels_last"}
    assert {item.name for item in fields(Recipe)} - options == {"settings", "label_loss"}
    assert {item.name for item in fields(Provenance)} - options == {"command"}


def test_defaults_of_the_help_are_those_of_the_paper_s_recipe() -> None:
    """The help may not import the settings (nor torch), so their defaults stand twice."""
    shown = shown_defaults()
    assert TrainOptions.recipe == AUTO
    for name, value in PAPER.settings.describe().items():
        if name == "channels_last":
            continue
        text = shown[name]
        if name in SCHEDULED:
            assert parse_schedule(text) == getattr(PAPER.settings, name), name
        elif name in ("max_weight_norm", "pretrained_lr_factor"):
            assert (value, text) == (None, "the network's")
        elif name == "prefetch":
            assert (value, text) == (None, "where it can help")
        else:
            assert text == ("none" if value is None else str(value)), name
    assert shown["method"] == PAPER.method
    assert shown["preprocessing"] == PAPER.preprocessing
    assert PAPER.balanced is False
    assert TrainOptions.held_out == HELD_OUT
    assert TrainOptions.evidence_samples == EVIDENCE_SAMPLES


def test_choices_of_the_help_are_all_there_are() -> None:
    hints = get_type_hints(TrainOptions)

    def choices(name: str) -> set[str]:
        return {c for part in (hints[name], *get_args(hints[name])) for c in get_args(part) if c}

    assert set(POLICIES) <= choices("batch_norm")
    assert set(STANDARDISED) <= choices("preprocessing")
    assert set(FITS) == choices("fit")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_by_name_is_that_recipe(name: str) -> None:
    assert parsed(f"--source s --recipe {name}").make_recipe() == RECIPES[name]


def test_layers_by_name() -> None:
    text = "--source s --layer-rate conv1=0.1 --layer-rate fc=2 --freeze norm --freeze 'b.[0-3]'"
    options = parsed(text)
    settings = options.make_recipe().settings
    assert settings.layer_rates == {"conv1": 0.1, "fc": 2.0}
    assert settings.freeze == ("norm", "b.[0-3]")
    assert option_words(options, ["output"]) == shlex.split(text)
    with pytest.raises(InputError, match="LAYER=FACTOR"):
        parsed("--source s --layer-rate conv1:0.1").make_recipe()


def test_what_is_typed_comes_before_the_recipe() -> None:
    text = "--source s --recipe recommended --learning-rate 0.5 --no-balanced --ema-decay 0"
    recipe = parsed(f"{text} --adaptation-factor ramp-up:5 --domain-classifier 8,4").make_recipe()
    assert recipe.settings.learning_rate == Constant(0.5)
    assert recipe.settings.adaptation_factor == RampUp(5)
    assert recipe.settings.ema_decay is None
    assert recipe.balanced is False
    assert recipe.domain_classifier == (8, 4)
    # and what is not typed is the recipe's
    recommended = RECIPES["recommended"]
    assert recipe.method == recommended.method
    assert recipe.preprocessing == recommended.preprocessing
    assert recipe.settings.optimiser == recommended.settings.optimiser
    assert PAPER.settings.learning_rate == Annealed(0.01, 10.0, 0.75)


def test_no_hidden_layer_can_be_said() -> None:
    assert parsed("--source s --domain-classifier ''").make_recipe().domain_classifier == ()


@pytest.mark.parametrize(
    "text",
    [
        "--source s",
        "--source 'my data' --target t --preprocessing per-image --learning-rate 0.5 --seed 0",
        "--source s --domain-classifier 8,4 --max-gradient-norm 0.1234567891 --balanced --baseline",
        "--source s --no-balanced --init runs/a --weight-decay 1e-05 --size 16x20 --tensorboard",
    ],
)
def test_a_command_says_its_options_again(text: str) -> None:
    options = parsed(text)
    command = shlex.split(options.command())
    assert command[:2] == ["revgrad", "train"]
    assert sorted(command[2:]) == sorted([*shlex.split(text), "--output", "run"])
    at = command.index("--output")
    assert parsed(shlex.join(command[2:at] + command[at + 2 :])) == options


def test_a_mistake_that_needs_no_data_is_seen_at_once() -> None:
    with pytest.raises(InputError, match="--target is missing: all methods but source-only"):
        parsed("--source s --method two-losses").check()
    parsed("--source s --method source-only").check()


# -- dataclasses as commands -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Colours:
    shade: Annotated[str, typer.Option(help="Of the first.")] = "light"
    names: Annotated[list[str], typer.Option()] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    width: Annotated[int, typer.Option()]
    shade: Annotated[str, typer.Option(help="Of the second.")] = "dark"
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None


def test_dataclasses_become_options_and_share_those_they_both_have() -> None:
    got: list[Any] = []

    @spread_options
    def paint(colours: Colours, sizes: Sizes) -> None:
        """Paint it."""
        got.extend([colours, sizes])

    holder = typer.Typer()
    holder.command()(paint)
    run = CliRunner().invoke
    assert run(holder, ["--width", "3", "--names", "a", "--names", "b"]).exit_code == 0
    assert got == [Colours(names=["a", "b"]), Sizes(width=3, shade="light")]
    got.clear()
    assert run(holder, ["--width", "3", "--shade", "none", "-o", "x"]).exit_code == 0
    assert [one.shade for one in got] == ["none", "none"]
    assert got[1].output == Path("x")
    assert run(holder, []).exit_code == 2  # --width has no default
    shown = run(holder, ["--help"]).output
    assert "Paint it." in shown
    assert "Of the first." in shown
    assert "Of the second." not in shown


def test_words_of_options_leave_defaults_out() -> None:
    assert option_words(Sizes(width=3)) == ["--width", "3"]
    assert option_words(Sizes(width=3, output=Path("a b")), leave_out=["width"]) == [
        *("--output", "a b")
    ]
    assert option_words(Colours(names=["a", "b"])) == ["--names", "a", "--names", "b"]
