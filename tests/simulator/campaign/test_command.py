"""`kraftline sim`: what it prints, its exit codes, its files."""

import io
import json
import math
import multiprocessing
import os
import re
import shlex
import signal
import termios
import zlib
from html import escape

import pytest

from cli.main import main
from jepsen.linearizability import Operation
from simulator.campaign.arguments import parse
from simulator.campaign.campaign import NONDETERMINISTIC, Totals, exit_code_of
from simulator.campaign.draw import NEWEST_DRAWS, SHORT, Options, Until
from simulator.campaign.report import LiveLine, summary
from simulator.campaign.run import run_seed
from simulator.campaign.schedule import Schedule, read_schedule, write_schedule
from simulator.checks.operations import histories
from simulator.cluster.node_states import state_text, states_of
from simulator.mutants.catalogue import MUTANTS
from tests.simulator.worlds import follower, leader, quiet_world

FORGETFUL = next(mutant for mutant in MUTANTS if mutant.name == "vote-in-memory")
ALONE = ("--short", "--nodes", "1", "--observers", "0")
"""A whole run that takes a tenth of the events of a usual one."""
LAST_KEYS = {"seeds", "failed", "events", "events_per_second", "virtual_seconds", "marks"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sim(capsys, *words):
    """(exit code, lines of standard output, standard error)."""
    code = main(["sim", *words])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_the_help_describes_every_version_of_the_draws(capsys):
    code, lines, _ = sim(capsys, "--help")
    words = " ".join(" ".join(lines).split())
    told = words.partition("--draws N 1: ")[2].partition(" --short")[0]
    assert code == 0
    assert [int(n) for n in re.findall(r"; (\d+): ", told)] == list(range(2, NEWEST_DRAWS + 1))
    assert told.endswith(f" ({NEWEST_DRAWS})")


def test_seeds_that_hold(capsys):
    code, lines, err = sim(capsys, "--seeds", "1..2", *ALONE, "--json")
    assert (code, err) == (0, "")
    last = json.loads(lines[-1])
    assert last.keys() >= LAST_KEYS
    assert (last["seeds"], last["failed"]) == (2, 0)
    assert last["events"] == sum(last["events_by_kind"].values())
    assert last["virtual_seconds"] > 20
    assert last["marks"]["leader_elected"] >= 2


@pytest.mark.long
def test_seeds_too_hard_to_judge_are_named(capsys, monkeypatch):
    monkeypatch.setattr(histories.judge, "__defaults__", (1,))
    code, lines, _ = sim(capsys, "--seeds", "1..2", "--short")
    assert code == 0
    assert "histories too hard to judge: 2, seeds 0x1, 0x2" in lines


@pytest.mark.long
def test_histories_too_hard_to_judge_are_counted(capsys, monkeypatch):
    monkeypatch.setattr(histories.judge, "__defaults__", (1,))
    last = json.loads(sim(capsys, "--seed", "1", "--short", "--json")[1][-1])
    assert (last["unknown"], last["unknown_seeds"]) == (1, [1])


def test_a_history_that_is_not_linearizable_is_a_file(capsys, monkeypatch):
    told = histories.operations_of

    def with_a_read_of_nothing(*given):
        read = Operation(
            process=2_000_000, f="exists", value=("topic-x", None), call=0, end=1,
            output=("topic-x", "nobody-made-it"),
        )  # fmt: skip
        return [*told(*given), read]

    monkeypatch.setattr(histories, "operations_of", with_a_read_of_nothing)
    code, lines, _ = sim(capsys, "--seed", "1", *ALONE, "--shrink-seconds", "0")
    assert code == 10
    assert "model topic-set, key topic-x: not linearizable: no legal order" in lines[1]
    assert "minimal counterexample, 1 operations" in lines[2]
    command = next(line for line in lines if line.startswith("  the history of the clients: "))
    assert command.endswith("verify --model topic-set --explain sim-0x1-history.jsonl")
    assert main(command.split()[command.split().index("kraftline") + 1 :]) == 1
    assert "exists topic-x -> nobody-made-it" in capsys.readouterr().out


@pytest.mark.long
def test_digests_of_several_seeds_are_added_up(capsys):
    objects = [
        json.loads(sim(capsys, "--seeds", seeds, "--short", "--json")[1][-1])
        for seeds in ("1..1", "1..2", "2..2")
    ]
    one, both, two = (each["digest"] for each in objects)
    assert (one, two) == tuple(f"{run_seed(seed, SHORT).digest:08x}" for seed in (1, 2))
    assert both == f"{zlib.crc32(bytes.fromhex(one + two)):08x}"
    assert objects[1]["unknown"] == 0


def test_digests_are_shown(capsys):
    until = Until(time_us=1_000_000)
    digests = [run_seed(seed, SHORT, until=until).digest for seed in (1, 2)]
    for seed, digest in enumerate(digests, start=1):
        _, lines, _ = sim(capsys, "--seed", str(seed), "--short", "--until", "1s")
        assert any(line.endswith(f"digest {digest:08x}") for line in lines)
    assert len(set(digests)) == 2


def test_a_summary_for_people(capsys):
    """Required marks that were never met make it a failure."""
    code, lines, _ = sim(capsys, "--seed", "0x2", *ALONE, "--require-marks")
    assert code == 1
    assert lines[0].startswith("1 seed, 0 failed; ")
    assert lines[-1].startswith("marks never met: ")


def test_a_single_run_says_which_marks_it_met(capsys):
    code, lines, _ = sim(capsys, "--seed", "0x2", "--short", "--until", "2s")
    assert code == 0
    assert lines[-1].startswith("marks met: ")
    assert "leader_elected" in lines[-1]
    assert "never" not in lines[-1]


def test_a_failure_is_told_shrunk_and_repeated_from_its_schedule(capsys, folder):
    with FORGETFUL.apply():
        code, lines, _ = sim(
            capsys, "--seeds", "1..1", "--short", "--nodes", "3", "--shrink-seconds", "4"
        )
        assert code == 10
        assert lines[0].startswith("SIM-FAIL seed=0x1 commit=")
        assert lines[0].endswith("replay: kraftline sim --seed 0x1 --nodes 3 --short")
        assert "invariant=I3 " in lines[0]
        assert lines[2] == "  making it smaller, up to 4 s, Ctrl-C keeps the best"
        assert "kraftline sim --schedule sim-0x1.jsonl" in lines[3]
        schedule = read_schedule(folder / "sim-0x1.jsonl")
        assert (schedule.seed, schedule.invariant) == (1, "I3")
        code, again, _ = sim(capsys, "--schedule", "sim-0x1.jsonl")
        assert code == 10
        assert "invariant=I3 " in again[0]
    assert sim(capsys, "--schedule", "sim-0x1.jsonl")[0] == 0


def test_a_page_of_the_failed_run(capsys, folder):
    words = ("--seeds", "1..1", "--short", "--nodes", "3", "--shrink-seconds", "0")
    with FORGETFUL.apply():
        sim(capsys, *words, "--html", "run.html")
    content = (folder / "run.html").read_text()
    assert "I3: node" in content
    assert "kraftline sim --seed 0x1" in content


@pytest.mark.parametrize("name", ["small.jsonl", "a small one.jsonl"])
def test_a_page_of_a_schedule_names_the_schedule(capsys, folder, name):
    options = Options(node_count=3, observer_count=0, faults=(), duration_us=100_000, write_count=0)
    schedule = Schedule(
        seed=3, options=options, plan=[], commit="0123456789", invariant="I10", text="it was"
    )
    write_schedule(folder / name, schedule)
    assert sim(capsys, "--schedule", name, "--html", "run.html")[0] == 0
    command = f"kraftline sim --schedule {shlex.quote(name)}"
    assert f"again: <code>{escape(command)}</code>" in (folder / "run.html").read_text()


def test_a_trace_up_to_an_event(capsys):
    code, lines, _ = sim(capsys, "--seed", "1", "--short", "--trace", "--until", "200")
    assert code == 0
    assert "voter_count=" in lines[0]
    assert any("-> Leader in epoch 1" in line for line in lines)
    assert any(line.startswith("1 seed, not finished; 200 events, ") for line in lines)
    code, lines, _ = sim(capsys, "--seed", "1", *ALONE, "--until", "999999999")
    assert code == 0
    assert lines[0].startswith("the run ended at event ")
    assert any(line.startswith("1 seed, 0 failed; ") for line in lines)


def test_a_stop_tells_where_the_nodes_stand(capsys):
    _, lines, _ = sim(capsys, "--seed", "1", "--short", "--until", "200")
    assert lines[0].startswith("stopped at event 200, t=")
    assert lines[1] == (
        "  node 1: up, Leader in epoch 1, leader 1, log end 10, high watermark 6, applied up to 6"
    )
    assert [line.split(":")[0] for line in lines[1:7]] == [
        f"  node {number}" for number in (1, 2, 3, 101, 102, 103)
    ]
    assert lines[7].endswith(" s")
    assert " 0.050 virtual seconds in " in lines[7]
    assert lines[8].startswith("1 election; ")


@pytest.mark.parametrize("until", ["200", "0.049892s"])
def test_the_page_of_a_stopped_run_names_the_stop(capsys, folder, until):
    sim(capsys, "--seed", "1", "--short", "--until", until, "--html", "run.html")
    command = "kraftline sim --seed 0x1 --short --until 200"
    assert f"again: <code>{command}</code>" in (folder / "run.html").read_text()


def test_json_says_whether_every_run_went_to_its_end(capsys, monkeypatch):
    _, lines, err = sim(capsys, "--seed", "1", "--short", "--until", "200", "--json")
    assert (json.loads(lines[-1])["complete"], len(lines)) == (False, 1)
    assert err.startswith("stopped at event 200, t=")
    _, lines, _ = sim(capsys, "--seed", "1", *ALONE, "--until", "999999999", "--json")
    assert json.loads(lines[-1])["complete"] is True
    is_stopped_at_the_first(monkeypatch, signal.SIGINT)
    _, lines, _ = sim(capsys, "--seeds", "1..2", *ALONE, "--json")
    assert json.loads(lines[-1])["complete"] is False


@pytest.mark.parametrize(
    ("time_us", "said"),
    [
        (50_000, "0.050 virtual seconds"),
        (3_599_000_000, "3,599.000 virtual seconds"),
        (3_600_000_000, "1.00 virtual hours"),
    ],
)
def test_virtual_time_is_in_hours_from_one_on(time_us, said):
    totals = Totals()
    totals.virtual_us = time_us
    assert f"; {said} in 2.0 s" in summary(totals, 2.0)[0]


def test_nodes_that_are_down_or_paused_are_said_to_be():
    world = quiet_world()
    follower(world).kill()
    leader(world).pause()
    texts = [state_text(state) for state in states_of(world.machines.values())]
    assert f"node {follower(world).id}: down" in texts
    assert any(text.startswith(f"node {leader(world).id}: paused, Leader in ") for text in texts)


@pytest.mark.long
def test_processes_give_what_one_gives(capsys):
    words = ("--seeds", "1..2", "--short", "--json")
    one = json.loads(sim(capsys, *words)[1][-1])
    two = json.loads(sim(capsys, *words, "--jobs", "2")[1][-1])
    for name in ("seeds", "events", "marks", "faults", "messages", "virtual_seconds"):
        assert one[name] == two[name]


@pytest.mark.long
def test_twice_compares_digests(capsys):
    assert sim(capsys, "--seed", "2", "--short", "--twice")[0] == 0


def is_stopped_at_the_first(monkeypatch, number):
    """Signal this thread: another one might get it late, when the next seed has run."""
    if number == signal.SIGINT:  # a shell starts what runs in the background with it ignored
        signal.signal(number, signal.default_int_handler)
    monkeypatch.setattr(LiveLine, "show", lambda *_: signal.raise_signal(number))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)],
)
def test_an_interrupted_campaign_sums_up(capsys, monkeypatch, number, code):
    is_stopped_at_the_first(monkeypatch, number)
    before = signal.getsignal(signal.SIGTERM)
    found, lines, err = sim(capsys, "--seeds", "1..9", *ALONE)
    assert (found, err) == (code, "")
    assert lines[0].startswith("1 seed, 0 failed; ")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_pool_ends(capsys, monkeypatch, number, code):
    is_stopped_at_the_first(monkeypatch, number)
    found, lines, err = sim(capsys, "--seeds", "1..50", "--short", "--jobs", "2")
    assert (found, err) == (code, "")
    assert " 0 failed; " in lines[0]


@pytest.mark.long
def test_a_killed_process_of_a_pool_is_said_and_the_rest_summed_up(capsys, monkeypatch):
    def kill_one(*_):
        for child in multiprocessing.active_children()[:1]:
            child.kill()

    monkeypatch.setattr(LiveLine, "show", kill_one)
    found, lines, err = sim(capsys, "--seeds", "1..50", "--short", "--jobs", "2", "--json")
    assert found == 255
    assert err.startswith("kraftline sim: a process of --jobs 2 died, killed or out of memory; ")
    assert err.count("\n") == 1
    assert json.loads(lines[-1])["failed"] == 0


def test_the_live_line_fits_into_the_terminal():
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    totals = Totals()
    totals.faults = {f"fault-{number}": number for number in range(20)}
    with os.fdopen(theirs, "w") as out, os.fdopen(ours, "rb", buffering=0) as shown:
        live = LiveLine(out, 1_000)
        live.show(totals)
        said = shown.read(1_000).decode()
        assert said.removeprefix("\r\x1b[K").startswith("0/1,000 seeds, 0 failed, ")
        assert len(said.removeprefix("\r\x1b[K")) == 59


def test_without_a_terminal_there_are_plain_lines_if_asked_for():
    out = io.StringIO()
    for period_s in (math.inf, 3_600.0, 0.0):
        LiveLine(out, 9, label="faults all: ", plain_period_s=period_s).show(Totals())
    assert out.getvalue().startswith("faults all: 0/9 seeds, 0 failed, ")
    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(
    ("invariant", "code"),
    [("I10", 10), ("linearizability", 10), ("liveness", 11), ("I20", 12), (NONDETERMINISTIC, 13)],
)
def test_exit_codes(invariant, code):
    assert exit_code_of(invariant) == code


def test_a_trace_tells_roles_votes_commits_clients_and_faults(capsys):
    words = ("--seed", "3", "--short", "--nodes", "3", "--trace", "--until", "2s")
    lines = [line[14:] for line in sim(capsys, *words)[1]]
    for expected in (
        "node 1: starts as Unattached in epoch 0",
        "node 1: Unattached -> Prospective in epoch 0",
        "node 3: gives a pre-vote to 1 in epoch 0",
        "node 1: Prospective -> Candidate in epoch 1",
        "node 3: gives its vote to 1 in epoch 1",
        "node 1: Candidate -> Leader in epoch 1",
        "node 3: Unattached -> Follower of 1 in epoch 1",
        "node 1: commits up to 1",
        "client 1000: invoke create topic-7 at node 101",
        "client 1000: ok create topic-7 at node 101",
        "fault pause of 2 for 0.213 s",
        "node 1: Leader -> Resigned in epoch 1",
    ):
        assert expected in lines, expected
    assert not any("leader_changed" in line for line in lines)
    commits = [line for line in lines if line.startswith("node 1: commits up to ")]
    assert len(commits) == len(set(commits)) < 30, "one line an advance, none for an idle fetch"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "5"], "'5' is no range: A..B, both included"),
        (["--seeds", "5..3"], "'5..3' is empty: A..B with A <= B"),
        (["--seed", "x"], "'x' is no seed"),
        (["--seed", "-1"], "'-1' is no seed"),
        (["--seed", "1", "--seeds", "1..2"], "--seed and --seeds exclude each other"),
        (["--nodes", "0"], "'0' is not a number from 1 to 9"),
        (["--faults", "fire"], "unknown fault 'fire': all, none, or of kill, "),
        (["--seed", "1", "--until", "soon"], "'soon' is neither an event (48211), a whole number"),
        (["--seed", "1", "--until", "0.5"], "'0.5' is neither an event (48211), a whole number"),
        (["--seed", "1", "--until", "0"], "'0' is neither an event (48211), a whole number"),
        (["--seed", "1", "--until", "2.5"], "a whole number from 1 on, nor a time (12.5s)"),
        (["--trace"], "--trace shows one run: give --seed N or --schedule FILE"),
        (["--schedule", "missing.jsonl"], "missing.jsonl: No such file or directory"),
        (["--schedule", "x", "--short"], "leave --short out"),
        (["--schedule", "x", "--seed", "0"], "leave --seed out"),
        (["--schedule", "x", "--observers", "0"], "leave --observers out"),
        (["--schedule", "x", "--faults", "none"], "leave --faults out"),
        (["--schedule", "x", "--faults", "all"], "leave --faults out"),
        (["--schedule", "x", "--draws", "1"], "leave --draws out"),
        (["--schedule", "x", "--twice"], "--schedule is one run, once: leave --twice out"),
        (["--schedule", "x", "--ledger", "y"], "--schedule is one run, once: leave --ledger out"),
        (["--schedule", "x", "--jobs", "2"], "--schedule is one run, once: leave --jobs out"),
        (["--seed", "1", "--trace", "--twice"], "--trace is one run, once: leave --twice out"),
        (["--seed", "1", "--until", "9", "--ledger", "y"], "leave --ledger out"),
        (["--html", "nowhere/run.html", "--seed", "1"], "nowhere/run.html: No such file"),
        (["--jobs", "many"], "'many' is not a number from 1 to 256"),
        (["--shrink-seconds", "-3"], "'-3' is no number of seconds from 0 on"),
        (["--sed", "3"], "unrecognized arguments: --sed 3"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, words, said):
    code, lines, err = sim(capsys, *words)
    assert (code, lines) == (2, [])
    assert said in err
    assert err.count("\n") == 1, err


def test_what_a_command_line_means():
    parsed = parse(["--seeds", "0x10..0x12", "--faults", "kill,clog", "--nodes", "5"])
    assert list(parsed.seeds) == [16, 17, 18]
    assert parsed.options == Options(node_count=5, faults=("kill", "clog"))
    assert parse(["--seed", "1", "--until", "2.5s"]).until == Until(time_us=2_500_000)
    assert parse(["--faults", "none"]).options.faults == ()
    assert parse(["--faults", "all"]).options.faults is None
