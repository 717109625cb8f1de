"""`autotune report`: report.html, rendered again from result.json."""

from autotune.cli.options import Out, result_file


def report(out: Out) -> None:
    """Render report.html again from result.json."""
    from autotune.cli.console import Console
    from autotune.cli.typed import shown_path
    from autotune.outputs.document import read_document
    from autotune.outputs.report import write_report

    document = result_file(out)
    page = document.with_name("report.html")
    write_report(read_document(document), page)
    Console().say(f"Written: {shown_path(page)}")
