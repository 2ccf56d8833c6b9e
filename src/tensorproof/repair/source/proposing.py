"""`propose`: the repair of one line of a file for one finding, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tensorproof import formats
from tensorproof.repair.source.cross_entropy import BOUNDED_CROSS_ENTROPY, CROSS_ENTROPY
from tensorproof.repair.source.division import DIVISION
from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.epsilon import EPSILON
from tensorproof.repair.source.exceptions import NoPattern, NotSure
from tensorproof.repair.source.following import Follower
from tensorproof.repair.source.functions import Library
from tensorproof.repair.source.log_sigmoid import LOG_SIGMOID
from tensorproof.repair.source.log_softmax import LOG_SOFTMAX
from tensorproof.repair.source.log_sum_exp import LOG_SUM_EXP
from tensorproof.repair.source.mask import MASK
from tensorproof.repair.source.parsing import Parsed, is_python, parse
from tensorproof.repair.source.proposal import Declined, SourceRepair
from tensorproof.repair.source.reading import Reader
from tensorproof.repair.source.repair import Repair
from tensorproof.repair.source.softmax import SOFTMAX
from tensorproof.repair.source.softplus import SOFTPLUS
from tensorproof.repair.source.spelling import Imported, Speller, imports_of
from tensorproof.repair.source.square_root import ROOT_OF_EXPONENTIAL, SQUARE_ROOT
from tensorproof.repair.source.text import Place, changed
from tensorproof.repair.source.unused import without_unused
from tensorproof.report.plain_text import one_line

#: In the order in which they are tried: a pattern comes before those that are parts of it, and what keeps the function first.
REPAIRS = (
    CROSS_ENTROPY,
    BOUNDED_CROSS_ENTROPY,
    LOG_SOFTMAX,
    LOG_SIGMOID,
    LOG_SUM_EXP,
    SOFTPLUS,
    SOFTMAX,
    ROOT_OF_EXPONENTIAL,
    EPSILON,
    DIVISION,
    SQUARE_ROOT,
    MASK,
)

#: A reason may quote source, which may be of any length.
LONGEST_REASON = 200

_FORMATS = {found.name: found for found in (formats.FLOAT16, formats.BFLOAT16, formats.FLOAT32, formats.FLOAT64)}
#: In the order in which a method of a tensor of unknown origin is taken for theirs.
_LIBRARIES: tuple[Library, ...] = ("torch", "jax", "tensorflow", "numpy")


def propose(source: str, line: int, rule: str, *, format: str = "float32") -> SourceRepair | Declined:
    """The repair of the expression on a line that a finding of a rule names, with values of a format.

    Never raises on any source: what cannot be read, or is not surely a pattern that has a repair, is declined.
    """
    repairs = [repair for repair in REPAIRS if rule in repair.rules]
    if not repairs:
        return Declined(f"no repair in source is known for {rule}")
    if format not in _FORMATS:
        return Declined(f"no repair in source is known for values of format {format}")
    try:
        return _Search(parse(source, line), line, rule, format).propose(repairs)
    except NotSure as error:
        return _declined(error)
    except RecursionError:
        return Declined("the source is nested too deeply to be read")


def proposals(
    source: str, line: int, rule: str, repairs: Sequence[Repair], *, format: str = "float32", column: int | None = None
) -> Iterator[tuple[str, SourceRepair | Declined]]:
    """Every one of the repairs, by its name, that may mend a finding on a line, for somebody who tries each of them.

    Each is asked by itself, and doubts that a run of the program settles are left to that run. Those that see nothing of theirs
    are left out. `column` (from 1) tells several expressions of the line apart, where it is known.
    """
    for repair in repairs:
        if rule not in repair.rules:
            continue
        if format not in _FORMATS:
            yield repair.name, Declined(f"no repair in source is known for values of format {format}")
            continue
        try:
            search = _Search(parse(source, line), line, rule, format, is_tried=True, column=column)
            yield repair.name, search.propose([repair])
        except NoPattern:
            continue
        except NotSure as error:
            yield repair.name, _declined(error)
        except RecursionError:
            yield repair.name, Declined("the source is nested too deeply to be read")


def _declined(error: NotSure) -> Declined:
    return Declined(one_line(" ".join(str(error).split()), LONGEST_REASON))


class _Search:
    """The search for the pattern on one line."""

    def __init__(
        self, parsed: Parsed, line: int, rule: str, format: str, *, is_tried: bool = False, column: int | None = None
    ) -> None:
        self.parsed = parsed
        self.column = column
        self.is_tried = is_tried
        self.line = line
        self.rule = rule
        self.format = _FORMATS[format]
        self.imports: tuple[Imported, ...] = imports_of(parsed.module)
        doubts: list[str] = []
        imported = {found.qualified.partition(".")[0] for found in self.imports}
        # What is tried is a program of torch, also where the file never says so.
        imported |= {"torch"} if is_tried else set()
        libraries: tuple[Library, ...] = tuple(library for library in _LIBRARIES if library in imported)
        #: Expressions of which an earlier repair was not sure: no later one is tried on them.
        self.refused: set[cst.CSTNode] = set()
        self.reader = Reader(parsed, Follower(parsed, doubts), libraries, doubts)

    def propose(self, repairs: list[Repair]) -> SourceRepair:
        """The first of the repairs that fits, in the order given; raises `NotSure` if none does."""
        near_misses: list[str] = []
        doubts: list[str] = []
        region = _region(self.parsed, self.line)
        for repair in repairs:
            visitor = _Expressions(self, repair)
            region.visit(visitor)
            if visitor.drafts:
                return self._conclude(repair, visitor.drafts)
            near_misses += visitor.near_misses
            doubts += visitor.doubts
        if near_misses or doubts:
            raise NotSure([*near_misses, *doubts][0])
        raise NoPattern(f"nothing on line {self.line} is a pattern that has a repair for {self.rule}")

    def draft(self, node: cst.BaseExpression) -> Draft:
        """A new draft for an expression."""
        return Draft(
            node, self.reader, Speller(self.reader, self.imports, node, self.is_tried), self.format, self.rule, self.is_tried
        )

    def concerns(self, draft: Draft) -> bool:
        """Whether a draft is about the line: by its own expression, or by an assignment that it reads through."""
        if self.is_on_line(draft.node):
            return True
        return any(self.is_on_line(definition.statement) for definition in draft.through)

    def is_on_line(self, node: cst.CSTNode) -> bool:
        """Whether a node has a part on the line."""
        return self.parsed.start(node).line <= self.line <= self.parsed.end(node).line

    def _conclude(self, repair: Repair, drafts: list[Draft]) -> SourceRepair:
        first = [draft for draft in drafts if self.parsed.start(draft.node).line == self.line] or drafts
        first = [draft for draft in first if self._is_at_column(draft.node)] or first
        if len({tuple((self.reader.code(node), code) for node, code in draft.replaced) for draft in first}) > 1:
            raise NotSure(f"line {self.line} has several expressions that {repair.name} would repair, and they differ")
        for draft in first:
            self._refuse_other_users(draft)
        changes = [change for draft in first for change in draft.changes()]
        if self.is_tried:
            changes = without_unused(self.reader, first, changes)
        source = changed(self.parsed.source, changes)
        if not is_python(source):
            raise NotSure("the repair cannot be written at that place")
        return SourceRepair(repair.name, repair.safe, repair.why, source, self.parsed.source)

    def _is_at_column(self, node: cst.CSTNode) -> bool:
        """Whether a node has the column in it, where that is known."""
        if self.column is None:
            return False
        return self.parsed.start(node) <= Place(self.line, self.column - 1) <= self.parsed.end(node)

    def _refuse_other_users(self, draft: Draft) -> None:
        """Raise `NotSure` if the line is an assignment before the repaired expression, and is still needed after the repair."""
        if self.is_on_line(draft.node):
            return
        statements = (definition.statement for definition in draft.through)
        gone = [*(node for node, _ in draft.replaced), *draft.readers, *statements]
        for definition in draft.through:
            if self.reader.follower.other_users(definition, gone):
                raise NotSure(f"{definition.name} has other users, for which it would still be computed as it is")


class _Expressions(cst.CSTVisitor):
    """Tries a repair on every expression from the line on, and not on the parts of one that it fits.

    `near_misses` are what the repair says of expressions of the line that it does not fit, `doubts` what reading them left open.
    """

    def __init__(self, search: _Search, repair: Repair) -> None:
        super().__init__()
        self.search = search
        self.repair = repair
        self.is_anywhere = repair.anywhere and search.is_tried
        self.drafts: list[Draft] = []
        self.near_misses: list[str] = []
        self.doubts: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Try the repair on a node; its parts are visited unless it fits or they all come before the line."""
        if node not in self.search.parsed.positions:
            return False
        if self.search.parsed.end(node).line < self.search.line and not self.is_anywhere:
            return False
        if not isinstance(node, cst.BinaryOperation | cst.UnaryOperation | cst.Call) or node in self.search.refused:
            return True
        draft = self.search.draft(node)
        self.search.reader.doubts.clear()
        try:
            self.repair.rewrite(node, draft)
        except NotSure as error:
            self.search.refused.add(node)
            if self.search.is_on_line(node) or (self.search.is_tried and self.search.concerns(draft)):
                self.near_misses.append(str(error))
            return True
        if self.search.is_on_line(node):
            self.doubts += self.search.reader.doubts
        if draft.replaced and (self.is_anywhere or self.search.concerns(draft)):
            self.drafts.append(draft)
            return False
        return True


def _region(parsed: Parsed, line: int) -> cst.CSTNode:
    """The innermost function around the line, or the file."""
    around = [
        node
        for node in parsed.positions
        if isinstance(node, cst.FunctionDef) and parsed.start(node).line <= line <= parsed.end(node).line
    ]
    return max(around, key=parsed.start, default=parsed.module)
