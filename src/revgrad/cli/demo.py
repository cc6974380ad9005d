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
    from revgrad.domains import Domain

#: What the demo's own small set asks for, beyond the defaults (docs/paper.md says why).
SETTINGS = ["--domain-rate", "0.3", "--threads", "1", "--evaluate-every", "500"]
POINTS = 500  # of each domain in a cloud


def demo(
    output: Path = typer.Option(
        Path("demo"), "--output", "-o", help="Folder for runs and pictures."
    ),
    steps: int = typer.Option(2500, help="Steps of each training."),
    seed: int = typer.Option(0, help="Seed."),
    as_json: bool = JSON,
) -> None:
    """Adapt from MNIST digits to digits over photographs, and show what was gained.

    Trains three networks: on the source only, adapted to the unlabelled target, and on the
    target's labels (the upper bound). Uses full MNIST and MNIST-M where the data folder has them.
    """
    source, target, test = _data()
    common = ["--source", source, "--target", target, "--test", test, "--network", "mnist"]
    common += ["--steps", str(steps), "--seed", str(seed), *SETTINGS]
    methods = ("source-only", "adversarial", "train-on-target")
    folders = {method: output / f"{method}-{seed}" for method in methods}
    # where the verdict on the adapted network looks for what to compare it with
    folders["source-only"] = folders["adversarial"] / "baseline"
    if not as_json:
        typer.echo(
            f"{source} (labelled) → {target} (unlabelled), tested on {test}; {steps} steps\n"
        )
    results = _train_all(common, folders)
    pictures = _draw(output, folders, source, test)
    accuracies = {method: results[method]["target_accuracy"] for method in methods}
    judged, report = _judge(folders["adversarial"], output)
    lower, adapted, upper = accuracies.values()
    covered = (adapted - lower) / (upper - lower) if upper > lower else float("nan")
    if as_json:
        files = {"report": str(report), "pictures": [str(path) for path in pictures]}
        echo_json({**accuracies, "gap_covered": covered, "verdict": judged.outcome, **files})
        return
    typer.echo("\nwithout target labels")
    typer.echo(f"  {judged.outcome}: {judged.sentence}")
    typer.echo("\nwith them: accuracy on the target's test images")
    typer.echo(f"  source only        {lower:.4f}")
    typer.echo(f"  adapted            {adapted:.4f}   {100 * (adapted - lower):+.1f} points")
    typer.echo(f"  train on target    {upper:.4f}   (with the labels that adaptation does without)")
    typer.echo(f"  gap covered        {covered:.0%}\n")
    for file in (report, *pictures):
        typer.echo(f"see {file}")
    typer.echo(f"ship it: revgrad export {folders['adversarial']} model.onnx")


def _data() -> tuple[str, str, str]:
    """Full MNIST where the data folder has it, else the 5,000 digits of a wheel."""
    from revgrad.domains import open_domain

    try:
        for name in ("mnist-m", "mnist-m:test"):
            open_domain(name)
    except DataError:
        return "digits:train", "digits-m:train", "digits-m:test"
    return "mnist", "mnist-m", "mnist-m:test"


def _train_all(common: list[str], folders: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """The adapted network on one core, the two bounds one after the other on the second."""
    adapted = _start(common, folders, "adversarial", quiet=False)
    results = {}
    try:
        for method in ("source-only", "train-on-target"):
            results[method] = _wait(_start(common, folders, method, quiet=True))
        results["adversarial"] = _wait(adapted)
    finally:
        if adapted.poll() is None:
            adapted.terminate()
            adapted.wait()
    return results


def _start(
    common: list[str], folders: dict[str, Path], method: str, *, quiet: bool
) -> subprocess.Popen[str]:
    """The same command a user would type."""
    command = [sys.executable, "-m", "revgrad", "train", *common, "--json"]
    command += ["--method", method, "--output", str(folders[method])]
    if quiet:
        command.append("--quiet")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _wait(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate()
    if process.returncode:
        raise RevgradError(f"a training of the demo ended with exit code {process.returncode}")
    return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]


def _draw(output: Path, folders: dict[str, Path], source: str, test: str) -> list[Path]:
    from revgrad.adapting import load
    from revgrad.domains import open_domain
    from revgrad.reports.clouds import draw_clouds, project
    from revgrad.reports.samples import draw_samples

    shown = [open_domain(source), open_domain(test)]
    samples, clouds = output / "samples.png", output / "clouds.png"
    draw_samples(samples, [("source", shown[0]), ("target", shown[1])])
    points = [_some(domain).as_colour() for domain in shown]
    panels = []
    for method, title in (("source-only", "source only"), ("adversarial", "adapted")):
        network = load(folders[method])
        before, after = (network.features(domain).numpy() for domain in points)
        panels.append(project(f"{title}: features at {network.layer}", before, after))
    draw_clouds(clouds, panels)
    return [samples, clouds]


def _judge(run: Path, output: Path) -> tuple[Verdict, Path]:
    """The verdict on the adapted network, and the page that shows it: judged once for both."""
    from revgrad.diagnostics import verdict
    from revgrad.reports.findings import read_findings
    from revgrad.reports.page import write_report

    findings = read_findings(run)
    report = write_report([findings], output / "report.html")
    return findings.verdict or verdict(run), report  # where there is none, the error says why


def _some(domain: Domain) -> Domain:
    import numpy as np

    count = min(POINTS, len(domain))
    return domain.subset(np.random.default_rng(0).permutation(len(domain))[:count])
