#!/usr/bin/env bash
# Tests how tests/pace.sh judges a slow machine.
set -euo pipefail
# shellcheck source=tests/pace.sh
source "$(dirname "${BASH_SOURCE[0]}")/pace.sh"

FAILURES=0
# expect WANTED COMMAND...: it prints WANTED.
expect() {
  local got
  got=$("${@:2}")
  [[ $got == "$1" ]] || { FAILURES=1; echo "${*:2}: $got, not $1"; }
}
# shellcheck disable=SC2317 # expect calls it
fits() { if stage_fits "$@"; then echo yes; else echo no; fi; }

expect 100 effort_of "$PACE_REFERENCE_MS"
expect 100 effort_of $((PACE_REFERENCE_MS * 5 / 4))
expect 62 effort_of $((PACE_REFERENCE_MS * 2))
expect 25 effort_of $((PACE_REFERENCE_MS * 100))

fuzz=${PACE_STAGE_MINUTES[fuzz]}
rest=$((PACE_BUDGET_MINUTES - fuzz))
expect yes fits fuzz 0 0                                    # the first stage always runs
expect yes fits fuzz $((rest * 60)) "$rest"                 # at the pace of the reference it ends at the last second
expect no fits fuzz $((rest * 60 + 1)) "$rest"              # a second slower, and it does not
expect no fits fuzz $(((PACE_BUDGET_MINUTES - 1) * 60)) 1   # slow by far
expect yes fits fuzz 60 "$rest"                             # all before it came from a cache
all=0
for minutes in "${PACE_STAGE_MINUTES[@]}"; do all=$((all + minutes)); done
expect yes fits fuzz $(((all - fuzz) * 60)) $((all - fuzz)) # on the reference all stages run
exit "$FAILURES"
