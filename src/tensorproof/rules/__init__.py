"""The rules: one module each, its docstring the rule's page. The tables below are read off the modules themselves.

Rules about models stand in this package; those about Python source in its sub-packages `shapes` and `source`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tensorproof.errors import ConfigurationError
from tensorproof.rules.rule import Rule


@cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    packages = [f"{__name__}.{info.name}" for info in pkgutil.iter_modules(__path__) if info.ispkg]
    found = {code: rule for package in (__name__, *packages) for code, rule in _rules_of(package).items()}
    return MappingProxyType(dict(sorted(found.items())))


@cache
def model_rules() -> Mapping[str, Rule]:
    """The rules about models alone: those that a node of a graph can break."""
    return MappingProxyType(dict(sorted(_rules_of(__name__).items())))


def _rules_of(package: str) -> dict[str, Rule]:
    """The rules that the modules of one package define, those of its sub-packages left out."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if not info.ispkg:
            module = importlib.import_module(f"{package}.{info.name}")
            found |= {item.code: item for item in vars(module).values() if isinstance(item, Rule)}
    return found


def find_rule(code: str) -> Rule:
    """The rule with that code or name."""
    for rule in all_rules().values():
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    raise ConfigurationError(f"unknown rule {code!r}; known are {', '.join(all_rules())}")
