"""Words of a script as bash has them, where bash would fill in nothing; and text of what it would."""

from __future__ import annotations

import subprocess

import pytest

from fsdpctl.other_launchers.shell.lines import ShellError
from fsdpctl.other_launchers.shell.statements import parse_script, plain
from fsdpctl.other_launchers.shell.variables import Variables, is_resolved


def words(text: str) -> list[list[str]]:
    return [[plain(word) for word in statement.words] for statement in parse_script(text).statements]


@pytest.mark.parametrize(
    "line",
    [
        "p a b",
        "p 'a b' \"c d\" e\\ f",
        'p \'it\'"\'"\'s\' "say \\"x\\""',
        "p '$HOME' \\$HOME \"\\$HOME\"",
        "p a#b '#c' #comment",
        "p a \\\n   b\\\nc",
        "p 'two\nlines' x",
        'p "a\n#b" c',
        "p a 2>/dev/null >/dev/null b",
        "p 2 >/dev/null",
        "p --lr=3e-4 -x '' \"\"",
        "p '`date`' \\`x\\`",
        "p a{b} @% ~x! [1] ?",
    ],
)
def test_words_are_those_of_bash(line: str) -> None:
    script = f'p() {{ printf "%s\\0" "$@"; }}; exec 3>&1; p() {{ printf "%s\\0" "$@" >&3; }}\n{line}\n'
    done = subprocess.run(["bash", "-f", "-c", script], capture_output=True, text=True, check=True)
    (statement,) = words(line)
    assert statement[1:] == done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a $(b; c | d) `e f` ${G:-h i}", [["a", "$(b; c | d)", "`e f`", "${G:-h i}"]]),
        ('x="$(scontrol show hostnames "$N" | head -n 1)"', [['x=$(scontrol show hostnames "$N" | head -n 1)']]),
        ("cat <<EOF >f\ntorchrun x\nEOF\nnext", [["cat"], ["next"]]),
        ("cat <<-'END' | b\n\tc d\n\tEND\nnext", [["cat"], ["b"], ["next"]]),
        ("(a; b)\n# c\n\n  d", [["a"], ["b"], ["d"]]),
    ],
)
def test_statements(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_lines_are_counted_where_a_statement_begins() -> None:
    script = parse_script("#!/bin/bash\n#SBATCH -N 2\n\na \\\n  b\ncat <<X\n1\n2\nX\nc 'd\ne'\n#SBATCH -t 1\nf\n")
    assert [statement.line for statement in script.statements] == [4, 6, 10, 13]
    assert [(line.number, line.text) for line in script.directives] == [(2, " -N 2")]
    assert [line.number for line in script.late_directives] == [12]


@pytest.mark.parametrize(
    ("text", "line", "error"),
    [
        ("a\nb 'c\nd", 2, "the quote ' is not closed"),
        ('a\nb "c\nd', 2, 'the quote " is not closed'),
        ("a\n\nb $(c", 3, "$( is not closed"),
        ("b ${c", 1, "${ is not closed"),
        ("x `c", 1, "`c is not closed"),
    ],
)
def test_what_no_shell_would_read(text: str, line: int, error: str) -> None:
    with pytest.raises(ShellError) as caught:
        parse_script(text)
    assert (caught.value.line, str(caught.value)) == (line, error)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$A-${B}", "1-two words"),
        ("${C:-x}${C-y}", "xy"),
        ("$((A * 8 + 4))", "12"),
        ("$(($A*$D))", "$(($A*$D))"),
        ("$((2 ** 100))", "$((2 ** 100))"),
        ("$((999999999 * 999999999))", "$((999999999 * 999999999))"),
        ("$((1 / 0))", "$((1 / 0))"),
        ("$((__import__(A)))", "$((__import__(A)))"),
        ("$UNKNOWN", "$UNKNOWN"),
        ("$(date)", "$(date)"),
    ],
)
def test_variables(word: str, expected: str) -> None:
    variables = Variables()
    variables.assign("A", "1")
    variables.assign("B", "two words")
    assert variables.resolve(word) == expected


def test_an_unquoted_variable_may_be_several_words() -> None:
    variables = Variables()
    variables.assign("ARGS", "--a '1 2' $X")
    assert variables.expand(["p", "$ARGS", "x"], 1) == ("p", "--a", "1 2", "$X", "x")
    (statement,) = parse_script('p "$ARGS"').statements
    assert len(variables.expand(statement.words, 1)) == 2


@pytest.mark.slow
def test_a_variable_that_doubles_itself_stays_small() -> None:
    variables = Variables()
    variables.assign("A", "x")
    for _ in range(100):
        variables.assign("A", "$A$A")
    assert len(variables.resolve("$A")) <= 10_000
    variables.assign("B", "x" * 9_000)
    with pytest.raises(ShellError, match="more than 1,000,000 characters"):
        variables.expand(["$B"] * 200, 1)


def test_resolved_words_have_nothing_to_fill_in() -> None:
    (statement,) = parse_script('p \'$a\' "$b" $c "$(d)" `e` f').statements
    assert [is_resolved(word) for word in statement.words] == [True, True, False, False, False, False, True]
