#!/usr/bin/env bash
# scripts_test.sh SOURCE_DIR: the scripts explain themselves from any directory, refuse what they do not know, wait for
# another apt-get, install nothing on a system whose cmake is too old, and the loss curve shows a falling loss as a falling
# curve.
set -euo pipefail
ROOT=$1
cd /
status=0
fail() {
  echo "$*"
  status=1
}

for script in deploy/quickstart.sh deploy/wheel.sh tests/run.sh tests/wan/run tests/bench/compare.sh tests/bench/wan.sh tests/bench/beside.sh \
  tests/bench/flood.sh tests/bench/lanes.sh tests/bench/python_wan.sh tests/bench/two_users.sh; do
  help=$("$ROOT/$script" --help) || fail "$script --help fails"
  [[ $help == Usage:* ]] || fail "$script --help does not begin with the usage"
  if complaint=$("$ROOT/$script" --nonsense 2>&1); then fail "$script accepts --nonsense"; fi
  [[ $complaint == *--nonsense* && $(wc -l <<<"$complaint") -eq 1 ]] || fail "$script: no one-line complaint: $complaint"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/apt-get" <<'END'
#!/bin/sh
echo "$*" >>"$CALLS"
[ "$(wc -l <"$CALLS")" -gt "$FAILURES" ] && exit
echo "$FAILURE"
exit 100
END
printf '#!/bin/sh\nexit 1\n' >"$work/dpkg-query" # nothing is installed
chmod +x "$work"/*
# install SYSTEM FAILURES FAILURE: what install_packages says where the first FAILURES calls of apt-get fail so; the calls are
# in $work/calls.
install() {
  : >"$work/calls"
  SYSTEM=$1 CALLS=$work/calls FAILURES=$2 FAILURE=$3 PATH=$work:$PATH bash -euo pipefail -c '
    source "$1/deploy/lib.sh"
    os_release() {
      case $1 in
      ID) echo "${SYSTEM%-*}" ;;
      VERSION_ID) echo "${SYSTEM#*-}" ;;
      *) echo "$SYSTEM" ;;
      esac
    }
    if ((EUID != 0)); then need_root_or_tools() { :; }; fi
    install_packages some-package' install "$ROOT" 2>&1
}
held='E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)'
said=$(install debian-12 2 "$held") || fail "installing ends with: $said"
[[ $said == *$'\nwaiting for another apt-get' ]] || fail "the wait for the lock is not reported once: $said"
[[ $(cut -d ' ' -f 4 "$work/calls" | xargs) == "update update update install" ]] || fail "apt-get: $(<"$work/calls")"
if said=$(install debian-12 1 "E: no network"); then fail "a failed update is taken for a good one"; fi
[[ $said == *"E: no network"* && $(wc -l <"$work/calls") -eq 1 ]] || fail "a failed update: $said"
if ((EUID == 0)); then
  if said=$(install ubuntu-22.04 0 ""); then fail "ubuntu 22.04 is not refused"; fi
  [[ $said == *"cmake is too old"* && ! -s $work/calls ]] || fail "ubuntu 22.04: $said"
fi

curve=$(for step in $(seq 100); do
  printf '{"step": %d, "loss": %d.5, "progress": 0.5, "ms": 10.0, "rank": 0}\n' "$step" $((101 - step))
done | awk -v marked=50 -v width=50 -v height=10 -f "$ROOT/deploy/loss_curve.awk")
[[ $(grep -c '│' <<<"$curve") -eq 10 ]] || fail "the curve does not have the height asked for"
[[ $curve == *"100.00 │"* && $curve == *" 2.00 │"* && $curve == *"100 steps, 1.0 s"* ]] || fail "the curve's numbers are wrong"
[[ $curve == *"killed (step 50)"* ]] || fail "the curve does not mark the step"
previous=0
while IFS= read -r line; do  # each row reaches further right than the one above
  blocks=${line//[^█]/}
  ((${#blocks} >= previous)) || fail "the curve rises: $line"
  previous=${#blocks}
done < <(grep '│' <<<"$curve")
if ((status)); then printf '%s\n' "$curve"; fi
exit "$status"
