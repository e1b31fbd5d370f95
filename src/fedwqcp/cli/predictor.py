"""``fedwqcp predictor``: what else a site's predictor can become."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp import serve
from fedwqcp._io import keep_apart, read, write_atomic
from fedwqcp.cli.output import AllowEmpty, AsJson, Output
from fedwqcp.words import commands

app = typer.Typer(no_args_is_help=True)

SERVE = Path(serve.__file__).parent


@app.command()
def onnx(
    predictor: Annotated[Path, typer.Argument(help="A file of `agent predictor`.")],
    out: Annotated[Path, typer.Argument(help="Where the graph is written.")],
    alpha: Annotated[float | None, typer.Option(help="Level to use, if there are several.")] = None,
    double: Annotated[
        bool, typer.Option("--double", help="The model's outputs are float64, not float32.")
    ] = False,
    allow_empty: AllowEmpty = True,
    model: Annotated[
        Path | None, typer.Option(help="An ONNX model: write it and the sets as one file.")
    ] = None,
    output_name: Annotated[
        str | None, typer.Option(help="Its output that the sets are made of, if there are several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a graph that gives the same sets, to the last bit."""
    keep_apart(out, predictor, model)
    serve.parse(read(predictor), str(predictor)).to_onnx(
        out,
        alpha=alpha,
        allow_empty=allow_empty,
        dtype="float64" if double else "float32",
        model=model,
        output=output_name,
    )
    Output(as_json).done(commands.files, files=[out])


@app.command()
def page(
    out: Annotated[Path, typer.Argument(help="Where it is written, such as sets.html.")],
    as_json: AsJson = False,
) -> None:
    """Write an offline page that turns probabilities into sets."""
    html, script = (read(SERVE / name) for name in ("page.html", "predictor.js"))
    write_atomic(out, html.replace(b"/* predictor.js */", script), shared=True)
    Output(as_json).done(commands.files, files=[out])
