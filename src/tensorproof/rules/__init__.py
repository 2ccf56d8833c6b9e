"""The rules: one module each, its docstring the rule's page. The table below is read off the modules themselves."""

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
    found: dict[str, Rule] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for item in vars(module).values():
            if isinstance(item, Rule):
                found[item.code] = item
    return MappingProxyType(dict(sorted(found.items())))


def find_rule(code: str) -> Rule:
    """The rule with that code or name."""
    for rule in all_rules().values():
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    raise ConfigurationError(f"unknown rule {code!r}; known are {', '.join(all_rules())}")
