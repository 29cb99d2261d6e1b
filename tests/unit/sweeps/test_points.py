"""The runs of a sweep from what is given to --set."""

from __future__ import annotations

import pytest

from fsdpctl.sweeps.points import MAX_NAME, make_points, overrides_of, read_grid, split_values


def test_values_are_divided_at_commas_outside_of_brackets_and_quotes() -> None:
    assert list(split_values("1e-4, 3e-4")) == ["1e-4", "3e-4"]
    assert list(split_values("[a, b],[c]")) == ["[a, b]", "[c]"]
    assert list(split_values("{a: [1,2], b: 3},null")) == ["{a: [1,2], b: 3}", "null"]
    assert list(split_values("'a,b',\"c,]\",d")) == ["'a,b'", '"c,]"', "d"]
    assert list(split_values("[a,b]")) == ["[a,b]"] and list(split_values("")) == [""]


def test_each_combination_is_a_point_and_the_last_key_varies_first() -> None:
    grid = read_grid(["a.lr=1,2", "steps=5", "b=x,y"])
    assert grid.num_runs == 4
    points = make_points("job", grid)
    assert [point.name for point in points] == ["job-lr1-bx", "job-lr1-by", "job-lr2-bx", "job-lr2-by"]
    assert overrides_of(points[1], grid) == ["steps=5", "a.lr=1", "b=y", "--name=job-lr1-by"]


def test_names_are_names_and_differ() -> None:
    points = make_points("job" * 15, read_grid(["path=/a/b,/a.b,[x y]", f"long={'l' * 60}1,{'l' * 60}2"]))
    names = [point.name for point in points]
    assert len({*names}) == 6 and all(len(name) <= MAX_NAME and name[-1].isalnum() for name in names)
    assert make_points("j", read_grid(["p=/a b,[c]"]))[0].name == "j-p_a_b"


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([], "nothing varies"),
        (["steps=5"], "nothing varies"),
        (["lr=1,2,1"], "lr=1,2,1: 1 is given twice"),
        (["lr=1,,2"], "a value is empty"),
        (["lr=1,2", "lr=3,4"], "lr is given twice: write all of its values in one --set"),
        ([f"{key}={','.join(map(str, range(10)))}" for key in "abc"], "these are 1,000 runs; a sweep has at most 256"),
    ],
)
def test_what_is_no_sweep_is_refused(overrides: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_grid(overrides)
