# Sourced by the scripts: makes .venv on first use and installs the project into it.
# Sets PYTHON to the interpreter of .venv. Every refusal is one line on stderr.

VENV="$ROOT/.venv"
OTHER_PYTHONS="3.11 3.12 3.13"  # those that the quick tests also run on, where found

refuse() {
    echo "kraftline: $*" >&2
    exit 1
}

# The first interpreter on PATH that is new enough.
find_python() {
    local candidate
    for candidate in "${KRAFTLINE_PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        [ -n "$candidate" ] || continue
        command -v "$candidate" >/dev/null 2>&1 || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
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

# make_venv [PYTHON]: of this interpreter, or of the first that is new enough.
make_venv() {
    local python="${1:-}"
    if [ -z "$python" ] && command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python '>=3.11' "$VENV" || refuse "uv could not make $VENV"
        return 0
    fi
    [ -n "$python" ] || python="$(find_python)" || refuse "Python 3.11 or newer is needed (or uv, which fetches it)"
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
