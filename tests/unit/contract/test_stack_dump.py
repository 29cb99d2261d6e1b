"""faulthandler's text as values."""

from __future__ import annotations

import faulthandler
import tempfile
import threading

from fsdpctl.contract.stack_dump import find_main, parse_stacks


def test_what_faulthandler_writes_now_is_read() -> None:
    ready, go = threading.Event(), threading.Event()

    def waits_here() -> None:
        ready.set()
        go.wait()

    thread = threading.Thread(target=waits_here)
    thread.start()
    ready.wait()
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read().decode()
    go.set()
    thread.join()
    threads = parse_stacks(text)
    main = find_main(threads)
    assert main is threads[0]
    assert main.frames[0].function == "test_what_faulthandler_writes_now_is_read"
    assert main.frames[0].file == __file__
    assert any(frame.function == "waits_here" for other in threads[1:] for frame in other.frames)


def test_names_of_threads_are_read_where_python_writes_them() -> None:
    text = (
        'Thread 0x00007f [saver] (most recent call first):\n  File "a b.py", line 3 in f\n\n'
        'Current thread 0x00008f [Main] (most recent call first):\n  File "x.py", line 1 in <module>\n'
    )
    assert [(one.name, one.is_main, str(one.frames[0])) for one in parse_stacks(text)] == [
        ("Main", True, "x.py:1 <module>"),
        ("saver", False, "a b.py:3 f"),
    ]


def test_the_dump_of_one_thread_is_that_of_the_main_thread() -> None:
    main = find_main(parse_stacks('Stack (most recent call first):\n  File "a.py", line 3 in f\n'))
    assert main is not None and str(main.frames[0]) == "a.py:3 f"


def test_a_dump_that_was_cut_off_has_no_main_thread() -> None:
    assert find_main(parse_stacks('Thread 0x1 (most recent call first):\n  File "a.py", line 3 in f')) is None
    assert find_main(parse_stacks("Current thread 0x1 (most recent call first):\n")) is None
    assert parse_stacks("\0\0garbage") == ()
