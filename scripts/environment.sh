# Sourced by the scripts: makes .venv on first use and installs the project into it.
# Sets PYTHON to the interpreter of .venv. Every refusal is one line on stderr.

VENV="$ROOT/.venv"
OTHER_PYTHONS="3.11 3.12 3.13"  # those that the quick tests also run on, where found
SYSTEM_PYTHON=/usr/bin/python3  # what a distribution ships

refuse() {
    echo "kraftline: $*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The first interpreter on PATH that is new enough, or the system's where that is quicker.
find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 && is_new_enough "$candidate"; then
            quicker_python "$candidate"
            return 0
        fi
    done
    return 1
}

# loop_us PYTHON: the microseconds it takes for a fixed loop of calls, attributes and dictionaries.
loop_us() {
    "$1" - <<'END'
import time

class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def sum(self, third):
        return self.left + third if self.right else third

def loop():
    begun, seen, total = time.process_time(), {}, 0
    for number in range(20_000):
        total = Pair(total, 1).sum(number)
        seen[number & 255] = (total, number)
    return time.process_time() - begun

print(round(min(loop() for _ in range(7)) * 1e6))
END
}

# quicker_python PYTHON: it, or the system's where that runs Python at least a tenth faster. pyenv
# builds without profile-guided optimisation unless told, a distribution with it: 1.2 to 1.3 times.
quicker_python() {
    local own system
    if [ -x "$SYSTEM_PYTHON" ] && is_new_enough "$SYSTEM_PYTHON" && has_venv "$SYSTEM_PYTHON"; then
        own="$(loop_us "$1")"
        system="$(loop_us "$SYSTEM_PYTHON")"
        if [ $((system * 10)) -lt $((own * 9)) ]; then
            echo "kraftline: $SYSTEM_PYTHON is used: $1 takes $((own * 100 / system)) % of its time" \
                "(KRAFTLINE_PYTHON chooses another)" >&2
            echo "$SYSTEM_PYTHON"
            return 0
        fi
    fi
    echo "$1"
}

# What decides the content of .venv, as one word; .venv/.ready-EXTRAS holds it after an install.
environment_fingerprint() {
    cat "$ROOT/pyproject.toml" "$ROOT/requirements-dev.lock" | cksum | tr ' ' '-'
}

# has_venv PYTHON: it runs, and makes environments.
has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# other_pythons: a line "VERSION PATH" for each other version that is found: on PATH (a shim of
# pyenv is there also for versions that it does not run), else among pyenv's.
other_pythons() {
    local version own candidate
    own="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    for version in $OTHER_PYTHONS; do
        [ "$version" != "$own" ] || continue
        for candidate in "$(command -v "python$version" 2>/dev/null)" \
            "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version"; do
            [ -x "$candidate" ] && has_venv "$candidate" || continue
            echo "$version $candidate"
            break
        done
    done
}

# make_venv [PYTHON]: of this interpreter, else of KRAFTLINE_PYTHON, else of the one that is found.
# uv makes it where it is there, and fetches a Python if there is none; not where PYTHON is given.
make_venv() {
    local python="${1:-${KRAFTLINE_PYTHON:-}}" uv=""
    [ -n "${1:-}" ] || uv="$(command -v uv 2>/dev/null)"
    if [ -n "$python" ]; then
        is_new_enough "$python" || refuse "$python is not Python 3.11 or newer"
    elif ! python="$(find_python)"; then
        [ -n "$uv" ] || refuse "Python 3.11 or newer is needed (or uv, which fetches it)"
        python=">=3.11"
    fi
    if [ -n "$uv" ]; then
        uv venv --quiet --python "$python" "$VENV" || refuse "uv could not make $VENV"
        return 0
    fi
    if ! has_venv "$python"; then
        refuse "this Python has no ensurepip; install it: apt install python3-venv (or install uv)"
    fi
    "$python" -m venv "$VENV" || refuse "could not make $VENV (see the lines above)"
}

install_project() {
    local wanted="$1" requirement="$ROOT"
    [ -z "$wanted" ] || requirement="$ROOT[$wanted]"
    if [ -x "$VENV/bin/pip" ]; then
        "$PYTHON" -m pip install --quiet --disable-pip-version-check --compile \
            --constraint "$ROOT/requirements-dev.lock" --editable "$requirement"
    else
        uv pip install --quiet --compile-bytecode --python "$PYTHON" \
            --constraint "$ROOT/requirements-dev.lock" --editable "$requirement"
    fi || refuse "installing the project into $VENV failed (see the lines above)"
}

# ensure_packages COMMAND PACKAGE...: Debian packages for tests, where the command is missing.
ensure_packages() {
    local command="$1"
    shift
    command -v "$command" >/dev/null 2>&1 && return 0
    if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
        refuse "$command is needed; install it: apt install $*"
    fi
    echo "kraftline: installing $* (once)" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } \
        >/dev/null 2>&1 || refuse "apt-get install $* failed"
}

# ensure_environment EXTRAS [PYTHON]: $VENV exists and holds the project with these extras ("" for
# none).
ensure_environment() {
    local wanted="${1:-}" ready takes="under a minute"
    PYTHON="$VENV/bin/python"
    ready="$VENV/.ready-${wanted//,/-}"
    if [ -x "$PYTHON" ] && [ "$(cat "$ready" 2>/dev/null)" = "$(environment_fingerprint)" ]; then
        return 0
    fi
    case ",$wanted," in *,spark,*) takes="Spark is some 800 MB, so minutes" ;; esac
    echo "kraftline: installing into ${VENV##*/} (once; $takes)" >&2
    [ -x "$PYTHON" ] || make_venv "${2:-}"
    install_project "$wanted"
    environment_fingerprint >"$ready"
}
