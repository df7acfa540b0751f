"""The command: what goes where, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci import config
from ricci.cli import main

MODEL = """
graph Main {
    @attrib { n: int = 3; }
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { w: real[n]; m: real[2, n]; k: int[n]; b: bool[n]; }
    @compose { y = add(x, w); }
}
"""
ADD = """
operator add {
    @input { x: real[n]; w: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[i,] + w[i,], i < n; }
}
"""
MODEL += ADD
OPEN = """
graph Main {
    @input { x: real[n|9]; }
    @output { y: real[n]; }
    @compose { y = add(x, x); }
}
"""
OPEN += ADD

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "model.nnef2"
    folder.mkdir()
    (folder / "main.sknd").write_text(MODEL)
    return str(folder)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.sknd"
    path.write_text("graph Main { @attrib { n: int } }")
    return str(path)


# ---------------------------------------------------------------------------- check


def test_check_says_ok_on_stdout(model: str, capsys: Captured) -> None:
    assert main(["check", model]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ok  ") and "no weights" in out and not err


def test_check_reports_on_stderr_and_goes_on(model: str, wrong: str, capsys: Captured) -> None:
    assert main(["check", wrong, model]) == 1
    out, err = capsys.readouterr()
    assert "error[E01" in err and "wrong.sknd:1:" in err and "ok  " in out


def test_check_as_json(model: str, wrong: str, capsys: Captured) -> None:
    assert main(["check", "--json", model, wrong]) == 1
    out, err = capsys.readouterr()
    good, bad = json.loads(out)
    assert good["ok"] and not bad["ok"] and bad["diagnostics"][0]["span"]["line"] == 1
    assert not err


def test_check_shows_a_warning_once(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "warn.sknd"
    graph = "@input { x: real[2]; } @output { y: real[2]; } @compose { y = x; }"
    path.write_text(
        f"graph A {{ @attrib {{ b: bool = true && true || true; }} {graph} }} graph B {{ {graph} }}"
    )
    assert main(["check", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    (finding,) = json.loads(out)[0]["diagnostics"]
    assert finding["severity"] == "warning" and err.count("warning[") == 1


def test_check_finds_damaged_weights(model: str, capsys: Captured) -> None:
    assert main(["init", model]) == 0
    assert main(["check", model]) == 0
    (Path(model) / "main.Main.w.dat").write_bytes(b"")
    assert main(["check", model]) == 1
    assert "E0702" in capsys.readouterr().err


# ----------------------------------------------------------------------------- init


def test_init_is_reproducible(model: str) -> None:
    assert main(["init", model, "--seed", "1"]) == 0
    first = dict(ricci.load(model).variables)
    assert main(["init", model, "--seed", "1", "--force"]) == 0
    second = dict(ricci.load(model).variables)
    assert all(np.array_equal(first[n], second[n]) for n in first)
    assert main(["init", model, "--force"]) == 0
    assert not np.array_equal(first["main.Main.m"], ricci.load(model).variables["main.Main.m"])


def test_init_keeps_what_is_there(model: str, capsys: Captured) -> None:
    assert main(["init", model]) == 0
    out, err = capsys.readouterr()
    assert not out and "4 variables" in err
    assert main(["init", model]) == 1
    assert "--force" in capsys.readouterr().err


# ------------------------------------------------------------------------------ run


def test_run_with_files(model: str, tmp_path: Path) -> None:
    main(["init", model, "--attrib", "n=4"])
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    outputs = ["--output", f"y={tmp_path}/y.npy", "--output", str(tmp_path / "all")]
    code = main(["run", model, "--attrib", "n=4", "--input", f"x={tmp_path}/x.npy", *outputs])
    w = ricci.load(model, attribs={"n": 4}).variables["main.Main.w"]
    assert code == 0
    assert np.allclose(np.load(tmp_path / "y.npy"), np.arange(4) + w)
    assert np.array_equal(np.load(tmp_path / "all" / "y.npy"), np.load(tmp_path / "y.npy"))


def test_run_with_random_inputs(model: str, capsys: Captured) -> None:
    main(["init", model])
    capsys.readouterr()
    assert main(["run", model, "--random", "7", "--target", "interpreter", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["run", model, "--random", "7", "--json", "--time", "3"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert first["outputs"][0]["shape"] == [3] and second["seconds"] > 0
    assert first["outputs"][0]["mean"] == pytest.approx(second["outputs"][0]["mean"], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "input `x` is not given"),
        (["--input", "z=z.npy"], "no input `z`"),
        (["--input", "x=absent.npy"], "absent.npy"),
        (["--input", f"x={__file__}"], "does not begin as a .npy file does"),
        (["--random", "1", "--attrib", "n=many"], "attribute `n`"),
        (["--random", "1", "--graph", "Other"], "no graph `Other`"),
        (["--random", "1", "--output", "z=z.npy"], "no output `z`"),
        (["--random", "1", "--output", "y=absent/y.npy"], "absent/y.npy"),
        (["--random", "1", "--output", f"{__file__}/x"], "cannot make the folder"),
    ],
)
def test_run_with_mistakes(model: str, arguments: list[str], text: str, capsys: Captured) -> None:
    main(["init", model])
    assert main(["run", model, "--target", "interpreter", *arguments]) == 1
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{{{",
        "",
    ],
)
def test_run_with_a_damaged_array(
    model: str, header: str, tmp_path: Path, capsys: Captured
) -> None:
    main(["init", model])
    file = tmp_path / "x.npy"
    file.write_bytes(b"\x93NUMPY\1\0" + bytes([len(header) + 1, 0]) + f"{header}\n".encode())
    assert main(["run", model, "--input", f"x={file}", "--target", "interpreter"]) == 1
    assert "E0701" in capsys.readouterr().err


def test_run_with_open_sizes(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "open.sknd"
    path.write_text(OPEN)
    assert main(["run", str(path), "--random", "1"]) == 1
    assert "--set n=N" in capsys.readouterr().err
    assert main(["run", str(path), "--random", "1", "--set", "n=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [5]
    assert main(["run", str(path), "--random", "1", "--set", "m=5"]) == 1
    assert "no open size `m`" in capsys.readouterr().err
    assert main(["run", str(path), "--random", "1", "--set", "n=10000000000000"]) == 1
    assert "at most 9" in capsys.readouterr().err


def test_run_leaves_out_optional_inputs(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "absent.sknd"
    path.write_text("""
        graph G {
            @attrib { k: optional real; }
            @input { x: real[2]; o: optional real[2]; }
            @output { y: real[2]; }
            @compose { y = o ?? x; }
        }
    """)
    array = tmp_path / "x.npy"
    np.save(array, np.ones(2, np.float32))
    given = ["run", str(path), "--input", f"x={array}", "--json"]
    assert main(given) == 1
    assert "--attrib o=null to leave it out" in capsys.readouterr().out
    assert main([*given, "--attrib", "o=2"]) == 1
    assert "`o` is an input" in capsys.readouterr().out
    assert main([*given, "--attrib", "o=null", "--attrib", "k=null"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["mean"] == 1.0
    assert main(["run", str(path), "--random", "0"]) == 0


def test_bench(model: str, capsys: Captured) -> None:
    main(["init", model])
    capsys.readouterr()
    assert main(["bench", model, "--calls", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"load", "compile", "median call"}


# ----------------------------------------------------------------------------- show


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("syntax", "operator add"),
        ("graph", "add"),
        ("ir", "main.Main.w"),
        ("loops", ""),
        ("llvm", "define"),
        ("asm", "ret"),
    ],
)
def test_show_prints_every_stage(model: str, stage: str, text: str, capsys: Captured) -> None:
    assert main(["show", model, "--stage", stage]) == 0
    out, err = capsys.readouterr()
    assert out.strip() and text in out and not err
    assert main(["show", model, "--stage", stage, "--json"]) == 0
    json.loads(capsys.readouterr().out)


# ------------------------------------------------------------------- usage, settings


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["run"], ["run", "x", "--attrib", "n"], ["init", "x", "--seed=one"]]
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "usage" in capsys.readouterr().err


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    monkeypatch.setenv("RICCI_THREADS", "3")
    monkeypatch.setenv("RICCI_NO_CACHE", "yes")
    monkeypatch.delenv("RICCI_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.get("threads") == 3 and config.get("no_cache") is True
    assert config.get("cache_dir") == tmp_path / "ricci"
    monkeypatch.setenv("RICCI_CACHE_DIR", str(tmp_path / "mine"))
    assert config.get("tuning_file") == tmp_path / "mine" / "tuning.json"
    monkeypatch.delenv("RICCI_CACHE_DIR")
    assert main(["config"]) == 0
    assert "RICCI_THREADS" in capsys.readouterr().out
    monkeypatch.setenv("RICCI_CACHE_DIR", "~no-such-user/x")
    assert main(["config"]) == 1
    assert "RICCI_CACHE_DIR must be" in capsys.readouterr().err
    monkeypatch.delenv("RICCI_CACHE_DIR")
    monkeypatch.setenv("RICCI_THREADS", "many")
    assert main(["config"]) == 1
    assert "RICCI_THREADS must be an integer" in capsys.readouterr().err


def test_a_bug_ends_with_3_and_a_report(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("ricci.api.load", fail)
    assert main(["check", model]) == 3
    err = capsys.readouterr().err
    assert "a wheel came off" in err and "report" in err and "Traceback" not in err
    (report,) = tmp_path.glob("ricci-report-*.txt")
    assert "operator add" in report.read_text() and "Traceback" in report.read_text()


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ricci", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ricci {ricci.__version__}\n"


@pytest.mark.parametrize(
    ("redirection", "code", "text"),
    [
        ("config >&-", 0, ""),
        ("check absent.sknd 2>&-", 1, ""),
        ("config --json >/dev/full", 1, "cannot write the output"),
        ("show --help | true; exit ${PIPESTATUS[0]}", 0, ""),
    ],
)
def test_output_that_nobody_takes(redirection: str, code: int, text: str) -> None:
    line = f"{sys.executable} -m ricci {redirection}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr


def test_json_is_valid_in_any_encoding(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ricci", "check", "--json", f"{tmp_path}/é.sknd"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1 and json.loads(done.stdout)[0]["path"] == f"{tmp_path}/é.sknd"


def test_the_command_is_there_before_numpy() -> None:
    program = "import sys, ricci.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ------------------------------------------------------- several graphs, quantization, packs

GRAPHS = """
graph First { @attrib { n: int; } @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = add(x, x); } @quantize { x: whole; } }
graph Second { @input { xs: real[~|3]..(k|4); } @output { y: int[]; }
    @compose { y = with s = 0 for x : xs do Step(s); } }
graph Step { @input { s: int[]; } @output { t: int[]; } @compose { t = one(s); } }
operator one { @input { s: int[]; } @output { t: int[]; } @lower { t[] = s[] + 1; } }
operator whole { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = `round`(x[i,]), i < n; } }
"""
GRAPHS += ADD


@pytest.fixture
def graphs(tmp_path: Path) -> str:
    path = tmp_path / "graphs.sknd"
    path.write_text(GRAPHS)
    return str(path)


def test_show_names_the_graphs(graphs: str, capsys: Captured) -> None:
    assert main(["show", graphs, "--graphs"]) == 0
    assert capsys.readouterr().out.split() == ["First", "Second", "Step"]
    assert main(["show", graphs, "--graphs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["First", "Second", "Step"]


def test_a_graph_that_is_not_there_is_answered_with_those_that_are(
    graphs: str, capsys: Captured
) -> None:
    assert main(["show", graphs, "--graph", "Third"]) == 1
    assert "it has: First, Second, Step" in capsys.readouterr().err


def test_check_takes_parts_of_graphs_with_these(graphs: str, capsys: Captured) -> None:
    assert main(["check", graphs, "--attrib", "n=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines] == ["First:", "Second:"]


def test_quantizers_are_shown_and_applied(graphs: str, tmp_path: Path, capsys: Captured) -> None:
    command = ["show", graphs, "--attrib", "n=2"]
    assert main(command) == 0
    plain = capsys.readouterr().out
    assert "quantize" in plain and plain.count("whole") == 1
    assert main([*command, "--quantize"]) == 0
    assert capsys.readouterr().out.count("whole") == 1
    np.save(tmp_path / "x.npy", np.array([0.4, 1.4]))
    output = tmp_path / "y.npy"
    command = ["run", graphs, "--attrib", "n=2", f"--input=x={tmp_path}/x.npy"]
    assert main([*command, "--quantize", f"--output=y={output}"]) == 0
    assert np.load(output).tolist() == [0, 2]


def test_packs_of_dynamic_length_are_drawn(graphs: str, capsys: Captured) -> None:
    sizes = [f"--set=xs:{k}.shape[0]=2" for k in range(1, 5)]
    command = ["run", graphs, "--graph", "Second", "--random", "0", *sizes]
    assert main([*command, "--set", "k=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["max"] == 3
    assert main(command) == 1
    assert "--set k=N" in capsys.readouterr().err


def test_bench_shows_every_kernel(model: str, capsys: Captured) -> None:
    assert main(["init", model]) == 0
    capsys.readouterr()
    assert main(["bench", model, "--calls", "2", "--threads", "1"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^ +0 +main.add +y: float32\[3\] +nest +3 +1 ", text, re.M)
    assert "GFLOP/s in float32" in text
    assert main(["bench", model, "--calls", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (kernel,) = found["kernels"]
    assert (kernel["operations"], kernel["bytes"], kernel["runs"]) == (3, 36, 1)
    assert kernel["bound"] in {
        "computation",
        "memory",
        "cache",
        "launch",
        "threads",
        "instructions",
    }
    assert found["machine"]["memory"] > 0 and found["median call"] > 0
    assert main(["bench", model, "--calls", "1", "--target", "interpreter", "--json"]) == 0
    assert "kernels" not in json.loads(capsys.readouterr().out)


TWO = """
graph Main {
    @input { x: real[4, 4]; }
    @output { z: real[4]; }
    @compose { y = square(x); z = total(y); }
}
operator square {
    @input { x: real[n, n]; }
    @output { y: real[n, n]; }
    @lower { y[i, j] += x[i, k] * x[k, j], i < n, j < n, k < n; }
}
operator total {
    @input { x: real[n, n]; }
    @output { y: real[n]; }
    @lower { y[i,] += x[i, j], i < n, j < n; }
}
"""


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [("0", [0]), ("1", [1]), ("square", [0]), ("*t*", [1]), ("main.*", [0, 1]), ("z", [1])],
)
def test_show_one_kernel(tmp_path: Path, capsys: Captured, kernel: str, shown: list[int]) -> None:
    path = tmp_path / "main.sknd"
    path.write_text(TWO)
    assert main(["show", str(path), "--kernel", kernel]) == 0
    text = capsys.readouterr().out
    assert [int(n) for n in re.findall(r"^kernel (\d+): ", text, re.M)] == shown
    assert main(["show", str(path), "--kernel", kernel, "--stage", "llvm"]) == 0
    assert len(re.findall(r"^define void @k\w{24}\(", capsys.readouterr().out, re.M)) == len(shown)


@pytest.mark.parametrize("more", [["--kernel", "2"], ["--kernel", "0", "--stage", "ir"]])
def test_kernels_that_are_not_there(tmp_path: Path, capsys: Captured, more: list[str]) -> None:
    path = tmp_path / "main.sknd"
    path.write_text(TWO)
    assert main(["show", str(path), *more]) == 1
    assert "E0801" in capsys.readouterr().err
