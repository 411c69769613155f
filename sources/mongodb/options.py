"""How MongoDB documents are stored, in addition to a column for each field."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option, option_of_form


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """The options of the format for events of MongoDB."""

    document_column: str | None = option_of_form(
        "text", None, "For MongoDB: the name of a column that gets the whole document as Extended JSON text."
    )
    document_format: str = option(
        "relaxed",
        "For MongoDB: the form of the Extended JSON in `document_column`. `relaxed` reads like plain JSON, `canonical`"
        " keeps the type of every number.",
        "canonical",
    )
    id_format: str = option(
        "plain",
        "For MongoDB: what `_id` becomes. `plain` is a number or the text of the value, such as the 24 digits of an "
        "ObjectId. `extended` is its Extended JSON, which differs for values of different types.",
        "extended",
    )


def document_problem(_policies: object, _forms: object, documents: DocumentOptions) -> tuple[str, str] | None:
    """The option that has no effect with the others, and why."""
    if documents.document_format != "relaxed" and documents.document_column is None:
        return "document_format", "`document_format` has no effect without `document_column`, which names the column"
    return None
