"""`autotune report`: report.html, rendered again from result.json."""

from autotune.cli.options import Out, result_file
from autotune.errors import UsageError

_ADVICE = "Make room for it there, or copy its folder to where you may write, and name that one."


def report(out: Out) -> None:
    """Render report.html again from result.json."""
    from autotune.cli.console import Console
    from autotune.cli.typed import shown_path
    from autotune.outputs.document import read_document
    from autotune.outputs.report import write_report

    document = result_file(out)
    page = document.with_name("report.html")
    result = read_document(document)
    try:
        write_report(result, page)
    except UsageError as error:
        raise UsageError(error.message, _ADVICE) from None
    Console().say(f"Written: {shown_path(page)}")
