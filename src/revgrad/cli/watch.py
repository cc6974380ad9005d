"""`revgrad watch`: the page of a run, refreshed while it trains."""

from __future__ import annotations

from pathlib import Path

import typer


def watch_command(
    run: Path = typer.Argument(..., metavar="RUN", help="Folder of a run."),
    port: int = typer.Option(8765, help="Port on this machine; 0: any free one."),
    every: float = typer.Option(5.0, help="Seconds between two looks at the run."),
    points: int = typer.Option(600, help="Points of each domain in a feature cloud."),
) -> None:
    """Serve a run's page to this machine only, and refresh it while the run trains."""
    from revgrad.reports.watch import server_of

    with server_of(run, port=port, every=every, points=points) as server:
        typer.echo(f"watching {run} at {server.url}  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("\nno longer watching; the run goes on")
