"""Files for continuous integration: a workflow of GitHub, a job of GitLab, hooks of pre-commit.

They install tensorproof from the package index, and read the settings of the project's pyproject.toml.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorproof import __version__
from tensorproof.errors import ConfigurationError

_REQUIREMENT = f"tensorproof=={__version__}"


@dataclass(frozen=True, slots=True)
class CiFile:
    """A file below the project's folder, and what is left for the user to do."""

    path: str
    text: str
    remark: str = ""


def ci_file(kind: str, models: Sequence[str]) -> CiFile:
    """The file for a service: github, gitlab or pre-commit."""
    made = KINDS.get(kind)
    if made is None:
        raise ConfigurationError(f"--ci {kind!r}: write {', '.join(KINDS)}")
    return made(models)


def _github(models: Sequence[str]) -> CiFile:
    text = f"""\
# Checks models and source for NaN, infinity and shape defects. Settings are in [tool.tensorproof] of pyproject.toml.
name: tensorproof
on: [push, pull_request]
permissions:
  contents: read
  security-events: write
jobs:
  tensorproof:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: python -m pip install {_REQUIREMENT}
      - name: Shapes
        run: tensorproof shapes . --format github
      - name: Models
        if: always()
        env:
          MODELS: {json.dumps(_models(models))}
        run: |
          mapfile -t models <<< "$MODELS"
          reports=(--report sarif=tensorproof.sarif --report markdown=tensorproof.md)
          code=0
          tensorproof check --format github "${{reports[@]}}" -- "${{models[@]}}" || code=$?
          if [ -f tensorproof.md ]; then cat tensorproof.md >> "$GITHUB_STEP_SUMMARY"; fi
          exit "$code"
      - uses: github/codeql-action/upload-sarif@v3
        if: always() && hashFiles('tensorproof.sarif') != ''
        with:
          sarif_file: tensorproof.sarif
          category: tensorproof
"""
    return CiFile(".github/workflows/tensorproof.yml", text)


def _gitlab(models: Sequence[str]) -> CiFile:
    text = f"""\
# Checks models and source for NaN, infinity and shape defects. Settings are in [tool.tensorproof] of pyproject.toml.
tensorproof:
  stage: test
  image: python:3.11
  variables:
    MODELS: {json.dumps(_models(models))}
  script:
    - python -m pip install {_REQUIREMENT}
    - mapfile -t models <<< "$MODELS"
    - tensorproof shapes .
    - tensorproof check --report gitlab=gl-code-quality-report.json -- "${{models[@]}}"
  artifacts:
    when: always
    reports:
      codequality: gl-code-quality-report.json
"""
    path = ".gitlab/tensorproof.yml"
    return CiFile(path, text, f"add to .gitlab-ci.yml: include: {{local: {path}}}")


def _pre_commit(models: Sequence[str]) -> CiFile:
    text = f"""\
# Shape defects and numerically weak expressions in changed sources, NaN and infinity in changed models.
repos:
  - repo: local
    hooks:
      - id: tensorproof-shapes
        name: tensorproof shapes
        entry: tensorproof shapes
        language: python
        types_or: [python, jupyter]
        additional_dependencies: [{_REQUIREMENT}]
      - id: tensorproof-check
        name: tensorproof check
        entry: tensorproof check
        language: python
        files: '\\.onnx$'
        require_serial: true
        additional_dependencies: [{_REQUIREMENT}]
"""
    return CiFile(".pre-commit-config.yaml", text, "run pre-commit install")


def _models(models: Sequence[str]) -> str:
    return "\n".join(models) if models else "model.onnx"


KINDS: Mapping[str, Callable[[Sequence[str]], CiFile]] = {"github": _github, "gitlab": _gitlab, "pre-commit": _pre_commit}
