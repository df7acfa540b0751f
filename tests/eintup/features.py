"""The features of the language, each with the tests that show it, and the table of how they go."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from ricci.tables import table

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Feature:
    """`tests` are functions of files beside this one, as `file::function` without `test_`."""

    number: int
    title: str
    names: str

    @property
    def tests(self) -> tuple[str, ...]:
        """IDs of the functions, as pytest knows them."""
        pairs = (name.split("::") for name in self.names.split())
        return tuple(f"test_{file}.py::test_{function}" for file, function in pairs)


def _feature(number: int, title: str, others: str = "") -> Feature:
    """A feature with its acceptance tests, and others."""
    prefix = f"f{number:02}_"
    own = [name for name in _functions("test_features.py") if name.startswith(f"test_{prefix}")]
    return Feature(number, title, " ".join([f"features::{n[5:]}" for n in own] + others.split()))


@cache
def _functions(file: str) -> tuple[str, ...]:
    tree = ast.parse((FOLDER / file).read_text())
    return tuple(n.name for n in tree.body if isinstance(n, ast.FunctionDef))


@cache
def defined_tests() -> frozenset[str]:
    """All test functions of this folder."""
    files = [path.name for path in FOLDER.glob("test_*.py")]
    return frozenset(f"{f}::{n}" for f in files for n in _functions(f) if n.startswith("test_"))


FEATURES = (
    _feature(
        1,
        "files of four sections, calls over several lines, several outputs",
        "parser::the_sections_of_a_file parser::how_sections_are_set_apart "
        "parser::a_line_goes_on_inside_brackets verify::several_outputs "
        "api::several_results_are_a_named_tuple",
    ),
    _feature(
        2,
        "eintups of any rank; they own the shape",
        "api::one_program_for_all_ranks solve::a_convolution_of_any_rank "
        "ranks::combinations_equal_enumeration",
    ),
    _feature(
        3,
        "= and +=, arrays start with zeros, partial updates",
        "lower::cells_that_nothing_reaches_keep_what_they_held "
        "lower::what_a_statement_reads_is_what_was_there_before "
        "lower::what_is_proved_to_be_reached_needs_no_account",
    ),
    _feature(
        4,
        "implicit sums and broadcasts; the order of eintups does not count",
        "lower::what_is_on_one_side_only lower::random_programs",
    ),
    _feature(
        5,
        "sums over the whole right side",
        "lower::the_sum_spans_the_whole_right_side",
    ),
    _feature(
        6,
        "operators, numbers and functions in values",
        "parser::precedence_of_values parser::atoms_of_values lower::operators "
        "lower::bools_count_as_numbers lower::functions_and_numbers_of_the_configuration "
        "lower::numbers_promote_as_those_of_numpy lower::literals_give_way",
    ),
    _feature(
        7,
        "operators in index expressions",
        "parser::precedence_of_indices parser::atoms_of_indices lower::random_programs "
        "lower::diagonals",
    ),
    _feature(
        8,
        "index expressions size arrays, by their true bounds",
        "lower::extents_are_true_bounds lower::a_constant_index_sizes_an_array",
    ),
    _feature(
        9,
        "FLAT; -1 where a component is out of range",
        "lower::what_is_flat_and_out_of_range_is_minus_one lower::reshapes_and_sizes_of_zero",
    ),
    _feature(
        10,
        "slices anywhere: gather, scatter-add, batches",
        "lower::gather_and_scatter_with_shared_eintups "
        "lower::guards_of_slices_that_cancel_still_count api::coordinates_from_data "
        "ranks::rank_under_a_slice_is_the_extent_of_its_axis",
    ),
    _feature(
        11,
        "several expressions and slices in one access, constants",
        "lower::a_constant_index_sizes_an_array",
    ),
    _feature(
        12,
        "what is out of range is skipped, on both sides",
        "lower::any_index_out_of_range_skips_the_combination lower::a_bare_eintup_is_clipped "
        "lower::both_forms_of_a_convolution_are_one_kernel",
    ),
    _feature(
        13,
        "collisions accumulate",
        "lower::collisions_add_up",
    ),
    _feature(
        14,
        "RANDOM, half-open, with bounds that are values",
        "lower::random_numbers lower::random_integers_need_room "
        "api::inputs_are_drawn_if_there_is_a_seed verify::cases_come_from_the_seed",
    ),
    _feature(
        15,
        "DIMS(list)[coord] as a value",
        "check::dims_of_a_numbering_eintup_are_implied",
    ),
    _feature(
        16,
        "arguments of calls: arrays, DIMS, RANK, L, TENSOR, keywords",
        "parser::constants_of_calls parser::arguments_of_calls framework::calls "
        "framework::dims_are_those_of_the_configuration",
    ),
    _feature(
        17,
        "RANK IN, = n, = RANK(u); all combinations",
        "ranks::rank_lines ranks::combinations_equal_enumeration "
        "ranks::programs_of_the_original_have_their_combinations",
    ),
    _feature(
        18,
        "arithmetic, sums and comparisons of ranks",
        "ranks::sum_of_ranks_bounds_each ranks::combinations_equal_enumeration",
    ),
    _feature(
        19,
        "DIMS IN, and dims that are computed",
        "dims::draws_are_legal_and_reach_all dims::dims_follow_from_known_ones "
        "dims::broken_dims_and_computed_dims_equal_enumeration parser::constraints",
    ),
    _feature(
        20,
        "ranks are inferred; rank 1 where nothing is said",
        "ranks::ranks_are_inferred ranks::order_of_lines_and_repeated_lines_change_nothing",
    ),
    _feature(
        21,
        "constraints in any order; cycles are errors",
        "ranks::order_of_lines_and_repeated_lines_change_nothing",
    ),
    _feature(
        22,
        "a report with a line per case, a summary and an exit status",
        "cli_verify::the_table cli_verify::failures cli_verify::json "
        "cli_verify::one_case_again verify::the_summary",
    ),
    _feature(
        23,
        "comparison of shapes, of reals within tolerances, of integers exactly",
        "verify::reals verify::tolerances verify::integers_are_compared_exactly "
        "verify::kinds_and_shapes verify::nan verify::a_wrong_shape cli_verify::tolerances",
    ),
    _feature(
        24,
        "checks of first mentions, arity and ranks, in names of the program",
        "check::statements check::what_follows_from_an_error_is_not_reported "
        "parser::all_errors_are_found",
    ),
    _feature(25, "indices as data"),
    _feature(
        26,
        "sizes of zero",
        "lower::reshapes_and_sizes_of_zero api::without_elements",
    ),
    _feature(27, "the library, all of it right", "library::compiled library::interpreted"),
)


@dataclass(eq=False)
class Counter:
    """Counts, as a plugin of pytest, how the tests of each function went."""

    passed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, name = report.nodeid.partition("::")
        test = f"{Path(file).name}::{name.partition('[')[0]}"
        if report.failed:
            self.failed.setdefault(test, []).append(f"{report.nodeid}\n{report.longreprtext}")
        elif report.when == "call" and report.passed:
            self.passed[test] = self.passed.get(test, 0) + 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            file = Path(report.nodeid).name
            self.failed.setdefault(file, []).append(f"{report.nodeid}\n{report.longreprtext}")


def run(features: Sequence[Feature]) -> Counter:
    """Run all tests of some features, each once."""
    counter = Counter()
    tests = dict.fromkeys(f"{FOLDER}/{test}" for f in features for test in f.tests)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        status = pytest.main(["--quiet", "-p", "no:cacheprovider", *tests], plugins=[counter])
    if status > pytest.ExitCode.TESTS_FAILED:
        sys.exit(shown.getvalue())
    return counter


def rows(features: Sequence[Feature], counter: Counter) -> Iterator[list[str]]:
    for feature in features:
        passed = sum(counter.passed.get(test, 0) for test in feature.tests)
        failed = sum(len(counter.failed.get(test, ())) for test in feature.tests)
        missing = [test for test in feature.tests if test not in counter.passed]
        is_right = bool(feature.tests) and not failed and not missing
        verdict = "passed" if is_right else f"FAILED: {failed}, not run: {len(missing)}"
        yield [f"F{feature.number}", feature.title, str(passed), verdict]


def show(features: Sequence[Feature] = FEATURES) -> int:
    """Print the table; 1 if a test fails or is missing, or a feature has none."""
    counter = run(features)
    lines = list(rows(features, counter))
    print("\n".join(table(["", "feature", "tests", "verdict"], lines, right="tests")))
    for texts in counter.failed.values():
        print(f"\n{texts[0]}")
    bad = sum(line[-1] != "passed" for line in lines)
    tests = sum(counter.passed.values())
    print(f"\n{len(lines)} features, {tests} tests passed; {bad or 'no'} features with failures")
    return 1 if bad or counter.failed else 0
