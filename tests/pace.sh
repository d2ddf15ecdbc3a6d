# shellcheck shell=bash
# How fast this machine is now, so that tests/run.sh ends in time on a slow one. To be sourced by bash.

# Milliseconds that PACE_SOURCE takes to compile on each core at once, on two quiet cores of an AMD EPYC.
PACE_REFERENCE_MS=2800
PACE_SOURCE='#include <map>
#include <regex>
#include <string>
std::regex pattern("a+b");
std::map<std::string, std::regex> all;'

# pace_compile: milliseconds of one compilation on each core at once.
pace_compile() {
  local start=${EPOCHREALTIME/./} core
  for ((core = 0; core < $(nproc); ++core)); do
    g++ -std=c++20 -O1 -x c++ -c -o /dev/null - <<<"$PACE_SOURCE" &
  done
  wait
  printf '%d\n' $(((${EPOCHREALTIME/./} - start) / 1000))
}

# effort_of MILLISECONDS: percent of the seeds and seconds that random tests are given on such a machine: all of them up to a
# quarter slower than the reference, then as much less as it is slower, and a quarter at least.
effort_of() {
  local effort=$((PACE_REFERENCE_MS * 125 / $1))
  ((effort <= 100)) || effort=100
  ((effort >= 25)) || effort=25
  printf '%d\n' "$effort"
}

# Minutes that each stage takes on the reference without any cache, in the order in which they run.
declare -A PACE_STAGE_MINUTES=([release]=27 [python]=5 [asan]=20 [tsan]=11 [tidy]=9 [fuzz]=6)

# All of them end within this; who runs them ends them soon after and would see no table.
PACE_BUDGET_MINUTES=80

# stage_fits STAGE SECONDS MINUTES: whether the stage ends within the budget if it is as slow as those before it, which took
# SECONDS here and would take MINUTES on the reference. Without any before it, it does.
stage_fits() { (($3 == 0 || $2 + PACE_STAGE_MINUTES[$1] * $2 / $3 <= PACE_BUDGET_MINUTES * 60)); }
