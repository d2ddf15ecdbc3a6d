#!/usr/bin/env bash
# scripts_test.sh SOURCE_DIR: the scripts explain themselves from any directory, refuse what they do not know, and the loss
# curve shows a falling loss as a falling curve.
set -euo pipefail
ROOT=$1
cd /
status=0
fail() {
  echo "$*"
  status=1
}

for script in deploy/quickstart.sh tests/run.sh tests/wan/run tests/bench/compare.sh tests/bench/wan.sh tests/bench/beside.sh \
  tests/bench/lanes.sh; do
  help=$("$ROOT/$script" --help) || fail "$script --help fails"
  [[ $help == Usage:* ]] || fail "$script --help does not begin with the usage"
  if complaint=$("$ROOT/$script" --nonsense 2>&1); then fail "$script accepts --nonsense"; fi
  [[ $complaint == *--nonsense* && $(wc -l <<<"$complaint") -eq 1 ]] || fail "$script: no one-line complaint: $complaint"
done

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
