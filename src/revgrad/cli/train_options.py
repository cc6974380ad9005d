"""The options of `revgrad train`, which are options of `revgrad tune` too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from revgrad.cli.inputs import (
    ImageOptions,
    TrainingData,
    open_training_data,
    parse_class_weights,
    parse_part,
    parse_task,
)
from revgrad.cli.options import CONFIG, option_words, shown_command
from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.adapted import Adapted
    from revgrad.domains import Domain
    from revgrad.objectives import Adversary
    from revgrad.recipes import Recipe, RecipeChanges
    from revgrad.training.callbacks import Callback
    from revgrad.training.run import Provenance

#: What repeats nothing of a training: it is left out of the command that does.
PRESENTATION = ("config", "quiet", "as_json")
#: More threads than any machine has cores; of many more PyTorch dies.
MOST_THREADS = 1024
#: Settings of which 0 says "none": a recipe may have them, and they must go by a word too.
ZERO_IS_NONE = ("max_gradient_norm", "ema_decay")


def _data_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Data")


def _method_option(text: str, default: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Method", show_default=default)


def _training_option(text: str, default: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Training", show_default=default)


def _judgement_option(text: str, default: str | bool = True) -> Any:
    return typer.Option(help=text, rich_help_panel="Is it working?", show_default=default)


def _running_option(text: str, default: str | bool = True) -> Any:
    return typer.Option(help=text, rich_help_panel="Running", show_default=default)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """A training, as the command line says it; the fields are the options, in the order of --help.

    What is None is left to the recipe, or to the network where the text says so. The defaults that
    the help shows in parentheses are those of the recipe `paper`, but for the recipe's own.
    """

    source: Annotated[
        list[str],
        typer.Option(
            help="Labelled data: a folder with a subfolder per class, an .npz file, a table (.csv, "
            ".parquet) with --label, or a name (digits, mnist, …). May be repeated: each is a "
            "domain of its own."
        ),
    ]
    target: Annotated[
        list[str],
        typer.Option(
            help="Unlabelled data; labels it may have are dropped. Not needed for source-only. May "
            "be repeated.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    test: Annotated[
        str | None,
        typer.Option(help="Labelled target data to report accuracy on; it decides nothing."),
    ] = None
    network: Annotated[
        str | None,
        typer.Option(
            help="compact, perceptron (vectors), series, mnist, svhn, gtsrb, alexnet, "
            "efficientnet-lite0, one-hidden; timm:NAME, torchvision:NAME, transformers:NAME (or a "
            "folder); or module:function of your own.",
            show_default="by the inputs' shape: compact, perceptron or series",
        ),
    ] = None
    layer: Annotated[
        str | None,
        typer.Option(
            help="Where the domain classifier is attached; `revgrad layers` lists the layers. "
            "Default: the network's."
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(help="Image size, one number or HEIGHTxWIDTH. Default: the network's."),
    ] = None
    recipe: Annotated[
        str,
        typer.Option(
            help="A whole way of training: auto (source only, then a few ways to adapt, and "
            "the one judged best without target labels, or source only), paper (DANN as printed), "
            "stabilised (DANN with features normalised and λ waiting for the classes), "
            "recommended (ours, for images), or removal (of attributes: auto's choice where there "
            "are adversaries and no target). Options that are given come first."
        ),
    ] = "auto"
    steps: Annotated[
        int | None,
        typer.Option(
            help="Length of training; auto: follows the number of samples.", show_default="10000"
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(help="Decides initial weights, batches, dropout.", show_default="0"),
    ] = None
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline",
            help="Train the source-only network of the same budget too, for the verdict to compare "
            "with.",
        ),
    ] = False
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the run. The same command resumes it."),
    ]
    config: Annotated[Path | None, CONFIG] = None

    label: Annotated[
        str | None,
        _data_option(
            "The column of a table (.csv, .parquet) of the labels; A,B: several, of numbers."
        ),
    ] = None
    text: Annotated[
        str | None,
        _data_option(
            "The column of a table of texts, the only one that is read: as tokens for a network of "
            "transformers, else as words."
        ),
    ] = None
    groups: Annotated[
        str | None,
        _data_option(
            "The source's column (of an .npz file: array) of groups, such as a person: samples of "
            "one group are held out together."
        ),
    ] = None
    sample_weights: Annotated[
        str | None,
        _data_option(
            "The source's column (of an .npz file: array) of how much each sample's label counts."
        ),
    ] = None
    class_weights: Annotated[
        str | None,
        _data_option(
            "How much each class counts: balanced (all classes alike), or CLASS=WEIGHT,… by name "
            "or number."
        ),
    ] = None
    attribute: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="An attribute of the samples, for --adversary: a column of a table, an array of "
            "an .npz file, or, in this order, a level of folders above the classes. May be "
            "repeated.",
            rich_help_panel="Data",
            show_default="none",
        ),
    ] = field(default_factory=list)
    drop: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="A column of the source's table to leave out. May be repeated.",
            rich_help_panel="Data",
            show_default="none",
        ),
    ] = field(default_factory=list)
    categorical: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="A column of the source's table whose numbers are names (a postcode). May be "
            "repeated.",
            rich_help_panel="Data",
            show_default="none",
        ),
    ] = field(default_factory=list)
    held_out: Annotated[float, _data_option("Share of the source kept for evaluation.")] = 0.1
    per_class: Annotated[
        int | None,
        typer.Option(
            help="Train on this many random images of each class of the source; the others are "
            "what is evaluated on, in place of --held-out.",
            rich_help_panel="Data",
            show_default="all",
        ),
    ] = None
    target_labels: Annotated[
        int, _data_option("Semi-supervised: use this many of the target's labels.")
    ] = 0
    fit: Annotated[
        Literal["crop", "pad", "stretch"],
        _data_option("What is done to images of other proportions."),
    ] = "crop"
    layout: Annotated[
        Literal["auto", "NHWC", "NCHW"],
        _data_option("Axes of uint8 images in .npz files; auto knows grey and colour alone."),
    ] = "auto"
    corrupt: Annotated[
        Literal["fail", "skip"], _data_option("What is done where an image can't be read.")
    ] = "fail"
    storage: Annotated[
        Literal["auto", "decoded", "compressed", "files"],
        _data_option(
            "How folders of images are kept: decoded once, their bytes in one file, or not."
        ),
    ] = "auto"
    follow_links: Annotated[
        bool,
        typer.Option(
            "--follow-links",
            help="Take what links out of a folder of images lead to; else it is left out.",
            rich_help_panel="Data",
        ),
    ] = False
    task: Annotated[
        str | None,
        typer.Option(
            help="What labels mean: classes, binary (one logit), multi-label, regression, ordinal, "
            "dense, sequence (dense:255 leaves out the label 255), or module:name of your own.",
            rich_help_panel="Data",
            show_default="what labels and outputs say",
        ),
    ] = None
    output_part: Annotated[
        str | None,
        typer.Option(
            help="Of a network that returns a dict, a tuple or a ModelOutput: the part that is "
            "meant, as logits or 0.",
            rich_help_panel="Data",
            show_default="all of it",
        ),
    ] = None
    preprocessing: Annotated[
        Literal["fitted", "per-image"] | None,
        typer.Option(
            help="fitted: one mean and scale for all inputs; per-image: each image by its own mean "
            "and deviation.",
            rich_help_panel="Data",
            show_default="fitted",
        ),
    ] = None
    balanced: Annotated[
        bool | None,
        _data_option("Draw all classes of the source alike often, however many samples each has."),
    ] = None

    method: Annotated[
        str | None,
        _method_option(
            "adversarial (DANN), stabilised (DANN that waits for the classes), "
            "adversarial-entropy, adversarial-consistency, two-losses, cdan, cdan-e, mcc, "
            "dann-mcc, mdd, coral, mean-matching (DDC), kernel-matching (MMD), removal (DANN "
            "whose features correlate with no attribute); "
            "source-only and train-on-target (with the target's "
            "labels) are the bounds to compare with.",
            "adversarial",
        ),
    ] = None
    adversary: Annotated[
        list[str],
        typer.Option(
            metavar="ATTRIBUTE[@LAYER][:FACTOR]",
            help="What the features must not tell: an attribute (--attribute), or domain; at a "
            "layer, its λ times a factor; site|class@features:0.3 looks within each class. May be "
            "repeated; without a --target, the verdict says whether attributes are gone.",
            rich_help_panel="Method",
            show_default="domain",
        ),
    ] = field(default_factory=list)
    adaptation_factor: Annotated[
        str | None,
        _method_option("Adaptation factor λ: ramp-up:γ,height, or a number.", "ramp-up:10,1"),
    ] = None
    domain_classifier: Annotated[
        str | None,
        _method_option(
            "Hidden widths of the domain classifier, such as 1024,1024.",
            "the network's, or 1024,1024",
        ),
    ] = None
    normalise: Annotated[
        Literal["none", "rms", "layer"] | None,
        _method_option(
            "What is done to each sample's features in front of the domain classifier: none, rms "
            "(divided by their root mean square), layer (layer norm).",
            "none",
        ),
    ] = None
    domain_lr_factor: Annotated[
        float | None,
        _method_option("The domain classifier's learning rate, as a multiple of μ.", "1.0"),
    ] = None
    batch_norm: Annotated[
        Literal["joint", "separate", "target"] | None,
        _method_option(
            "BatchNorm sees: joint (all samples), separate (a pass per domain), target (separate, "
            "and the target's statistics are kept).",
            "joint",
        ),
    ] = None

    batch_size: Annotated[
        int | None, _training_option("Samples of a step, over all processes.", "128")
    ] = None
    source_share: Annotated[
        float | None, _training_option("Share of a batch that comes from the source.", "0.5")
    ] = None
    share_out: Annotated[
        Literal["evenly", "by-size"] | None,
        _training_option(
            "How several sources share their part of a batch, and several targets theirs.",
            "evenly",
        ),
    ] = None
    learning_rate: Annotated[
        str | None,
        _training_option(
            "Learning rate μ: annealed:μ0,α,β, or a number. With adam or adamw in place of sgd it "
            "starts at .001.",
            "annealed:0.01,10,0.75",
        ),
    ] = None
    optimiser: Annotated[str | None, _training_option("sgd, adam or adamw.", "sgd")] = None
    momentum: Annotated[float | None, _training_option("Momentum of sgd.", "0.9")] = None
    weight_decay: Annotated[float | None, _training_option("l2 penalty.", "0.0")] = None
    pretrained_lr_factor: Annotated[
        float | None,
        _training_option(
            "Learning rate of a pretrained network's own layers, as a multiple of μ.",
            "the network's",
        ),
    ] = None
    layer_rates: Annotated[
        list[str],
        typer.Option(
            "--layer-rate",
            metavar="LAYER=FACTOR",
            help="Learning rate of a layer and all in it, as a multiple of μ; may be repeated. "
            "The longest name that fits decides.",
            rich_help_panel="Training",
            show_default="none",
        ),
    ] = field(default_factory=list)
    freeze: Annotated[
        list[str],
        typer.Option(
            metavar="LAYER",
            help="A layer that stays as it is, by name or pattern (blocks.[0-3]), weights and "
            "BatchNorm statistics; may be repeated.",
            rich_help_panel="Training",
            show_default="none",
        ),
    ] = field(default_factory=list)
    max_weight_norm: Annotated[
        float | None,
        _training_option("Limit of the norm of the weights into a unit; 0: none.", "the network's"),
    ] = None
    max_gradient_norm: Annotated[
        float | None, _training_option("Limit of the gradients' norm; 0: none.", "none")
    ] = None
    ema_decay: Annotated[
        float | None,
        _training_option(
            "Decay of an exponential moving average (EMA) of the weights, e.g. 0.999; 0: none.",
            "none",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="Pretrained weights: a file (.safetensors, .pth) in the names of the network's "
            "package, of which the classifier is left; or none: random ones.",
            rich_help_panel="Training",
            show_default="those that come with the network",
        ),
    ] = None
    init: Annotated[
        Path | None,
        typer.Option(
            help="Start from all weights of this run (a folder) or file (.safetensors, .pth).",
            rich_help_panel="Training",
        ),
    ] = None

    return_weights: Annotated[
        Literal["last", "best"] | None,
        _judgement_option(
            "last, or best: of those at each evaluation the ones that --score likes best. No "
            "target label takes part. Of removed attributes best is the default: by fresh "
            "classifiers.",
            "last",
        ),
    ] = None
    score: Annotated[
        str | None,
        _judgement_option(
            "Label-free score for --return-weights best. Default: the one that our study "
            "recommends."
        ),
    ] = None
    evidence_samples: Annotated[
        int,
        _judgement_option(
            "Samples of each domain that the run keeps outputs of, for verdict and report; 0: none."
        ),
    ] = 2000

    evaluate_every: Annotated[
        int | None, _running_option("Steps between evaluations; 0: at the end.", "1000")
    ] = None
    log_every: Annotated[
        int | None, _running_option("Steps between lines of metrics; 0: at the end.", "50")
    ] = None
    checkpoint_every: Annotated[
        int | None, _running_option("Steps between checkpoints; 0: at the end.", "1000")
    ] = None
    device: Annotated[str | None, _running_option("auto, cpu, cuda, mps.", "auto")] = None
    threads: Annotated[
        int, _running_option("CPU threads of each process; 0: PyTorch's choice.")
    ] = 0
    workers: Annotated[
        int | None,
        _running_option(
            "Processes that read batches of Datasets, shards and files that are decoded as they "
            "come; any number gives the same weights.",
            "0",
        ),
    ] = None
    prefetch: Annotated[
        bool | None,
        _running_option(
            "Read the next batch while this one trains; the weights are the same.",
            "where it can help",
        ),
    ] = None
    precision: Annotated[
        Literal["full", "bf16"] | None,
        _running_option(
            "bf16: layers compute in bfloat16 (autocast), weights and losses in full.", "full"
        ),
    ] = None
    micro_batch: Annotated[
        int | None,
        _running_option(
            "Samples that pass at once on a process; gradients of a batch's parts are added up.",
            "none",
        ),
    ] = None
    checkpoint_activations: Annotated[
        bool | None,
        _running_option(
            "Run blocks of the feature extractor again in the backward pass, for less memory.",
            "False",
        ),
    ] = None
    compile: Annotated[
        bool | None, _running_option("Compile the step by torch.compile.", "False")
    ] = None
    shard: Annotated[
        bool | None,
        _running_option(
            "Of several processes each keeps a part of the weights (FSDP2), for large networks.",
            "False",
        ),
    ] = None
    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard",
            help="Write the scalars for TensorBoard too.",
            rich_help_panel="Running",
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="No progress bar, no notes.", rich_help_panel="Running"),
    ] = False
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print json on standard output, for programs.",
            rich_help_panel="Running",
        ),
    ] = False

    def check(self) -> None:
        """Mistakes that need no data to be seen."""
        alone = len(self.source) < 2 and not self.adversary and self.method != "source-only"
        if not all(self.target) or (not self.target and alone):
            raise InputError(
                "--target is missing: all methods but source-only need unlabelled target data"
            )
        if self.target_labels < 0:
            raise InputError(f"--target-labels must be ≥ 0, not {self.target_labels}")
        if not 0 <= self.threads <= MOST_THREADS:
            raise InputError(f"--threads takes 0 to {MOST_THREADS}, not {self.threads}")
        if not 0 <= self.held_out < 1:
            raise InputError(f"--held-out takes a share from 0 to 1, not {self.held_out}")
        if self.evidence_samples < 0:
            raise InputError(f"--evidence-samples takes 0 or more, not {self.evidence_samples}")
        if self.network is not None and not self.network:
            raise InputError("--network is empty: a name or module:function would do")

    def changes(self) -> RecipeChanges:
        """Fields of the recipe and of its settings that were given."""
        from revgrad.recipes import RecipeChanges
        from revgrad.schedules import parse_schedule
        from revgrad.training.settings import SCHEDULED

        given = {name: getattr(self, name, None) for name in RecipeChanges.__annotations__}
        changes: Any = {name: value for name, value in given.items() if value not in (None, [])}
        for name in SCHEDULED:
            if name in changes:
                changes[name] = parse_schedule(changes[name])
        for name in ZERO_IS_NONE:
            if changes.get(name) == 0:
                changes[name] = None
        if self.domain_classifier is not None:
            changes["domain_classifier"] = parse_widths(self.domain_classifier)
        if self.layer_rates:
            changes["layer_rates"] = parse_layer_rates(self.layer_rates)
        return changes  # type: ignore[no-any-return]

    def make_recipe(self) -> Recipe:
        """The recipe that is named, with what was given in its place; of auto, the paper's."""
        from revgrad.recipes import AUTO, PAPER, recipe_named

        named = PAPER if self.recipe == AUTO else recipe_named(self.recipe)
        return named.changed(self.changes())

    def open_data(self) -> TrainingData:
        """The domains, images in the size the network is made for unless another was given."""
        return open_training_data(
            self.network,
            self.source,
            self.target,
            self.test,
            images=self.images(),
            with_target_labels=self.target_labels > 0 or self.method == "train-on-target",
            task=None if self.task is None else parse_task(self.task),
        )

    def images(self) -> ImageOptions:
        """How images and tables are read."""
        return ImageOptions(
            self.size,
            self.fit,
            self.corrupt,
            label=self.label,
            groups=self.groups,
            weights=self.sample_weights,
            class_weights=parse_class_weights(self.class_weights),
            follow_links=self.follow_links,
            layout=self.layout,
            attributes=tuple(self.attribute),
            drop=tuple(self.drop),
            categorical=tuple(self.categorical),
            storage=self.storage,
            text=self.text,
        )

    def training_targets(self, data: TrainingData, seed: int) -> list[Domain]:
        """The targets as a training of that seed sees them: with the labels that it may use."""
        if not self.target_labels:
            return list(data.targets)
        return [one.keeping_labels(self.target_labels, seed) for one in data.targets]

    def train(
        self, data: TrainingData, *, callbacks: Sequence[Callback] = (), progress: bool = True
    ) -> Adapted:
        """Train on that data, into the folder `output`."""
        from revgrad.api import adapt
        from revgrad.diagnostics.scores import RECOMMENDED_SCORE
        from revgrad.domains.few_per_class import few_per_class
        from revgrad.recipes import AUTO

        watching = list(callbacks)
        if self.tensorboard:
            from revgrad.training.callbacks import TensorBoardScalars

            watching.append(TensorBoardScalars(self.output / "tensorboard"))
        recipe = self.make_recipe()
        seed = recipe.settings.seed
        sources, held_outs = list(data.sources), []
        if self.per_class is not None:
            parts = [few_per_class(one, self.per_class, seed) for one in sources]
            sources = [chosen for chosen, _ in parts]
            held_outs = [others for _, others in parts if others is not None]
        automatic = self.recipe == AUTO and self.method is None
        return adapt(
            data.build(seed, self.init, self.weights),
            sources,
            self.training_targets(data, seed) or None,
            layer=self.layer,
            task=data.task,
            output=parse_part(self.output_part),
            recipe=AUTO if automatic else recipe,
            adversaries=[parse_adversary(one) for one in self.adversary] or None,
            held_out=held_outs or self.held_out,
            test=data.test,
            run=self.output,
            baseline=self.baseline,
            return_weights=self.return_weights,
            score=self.score or RECOMMENDED_SCORE,
            evidence_samples=self.evidence_samples,
            callbacks=watching,
            progress=progress,
            provenance=self.provenance(data.network),
            **(self.changes() if automatic else {}),
        )

    def provenance(self, network: str) -> Provenance:
        """Where the network, of that name, and the data of the run come from."""
        from revgrad.training.run import Provenance

        return Provenance(
            network=network,
            source=" + ".join(self.source),
            target=" + ".join(self.target) or None,
            test=self.test,
            init=None if self.init is None else str(self.init),
            weights=self.weights,
            fit=self.fit,
            corrupt=self.corrupt,
            follow_links=self.follow_links,
            text=self.text,
            label=self.label if self.text is not None else None,
            command=self.command(),
        )

    def command(self) -> str:
        """The command that trains with these options; defaults are left out."""
        return shown_command("train", *option_words(self, leave_out=PRESENTATION))


def parse_adversary(text: str) -> Adversary:
    """`site`, `site@features`, `site@features:0.3`, `site|class@features`."""
    from revgrad.objectives import Adversary

    rest, marked, factor = text.rpartition(":")
    if not marked:
        rest, factor = text, "1"
    told, _, layer = rest.partition("@")
    attribute, within, by = told.partition("|")
    try:
        weight = float(factor)
    except ValueError:
        weight = -1.0
    if not attribute or weight < 0 or (within and by != "class") or ("@" in rest and not layer):
        raise InputError(
            "--adversary takes ATTRIBUTE, ATTRIBUTE@LAYER or ATTRIBUTE@LAYER:FACTOR, such as "
            f"site@features:0.3 (within each class: site|class@features), not '{text}'"
        )
    conditional: Any = by or None
    return Adversary(attribute, layer or None, factor=weight, conditional=conditional)


def parse_layer_rates(texts: Sequence[str]) -> dict[str, float]:
    """`["layer4=0.3", "fc=1"]` → layer → factor."""
    rates: dict[str, float] = {}
    for text in texts:
        layer, _, factor = text.partition("=")
        try:
            rates[layer] = float(factor)
        except ValueError:
            raise InputError(
                f"--layer-rate takes LAYER=FACTOR, such as layer4=0.3, not '{text}'"
            ) from None
    return rates


def parse_widths(text: str) -> tuple[int, ...]:
    """`1024,1024`; an empty text means no hidden layer."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"hidden widths are numbers with commas between, not '{text}'") from None
