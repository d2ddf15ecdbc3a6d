# shellcheck shell=bash
# Functions that quickstart.sh and the tests' scripts share: messages, waiting, packages, progress bars. To be sourced by bash under
# `set -euo pipefail`.

export LC_ALL=C.UTF-8

# The packages that a build needs; the names are those of Debian 12, Debian 13 and Ubuntu 24.04.
# shellcheck disable=SC2034  # used by those who source this
BUILD_PACKAGES=(g++ cmake ninja-build ccache mold pkg-config protobuf-compiler libprotobuf-dev libasio-dev libspdlog-dev
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev libsqlite3-dev libssl-dev libcpp-httplib-dev)
# And what the tests need on top.
# shellcheck disable=SC2034
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev etcd-server etcd-client clang clang-tidy clang-format
  libclang-rt-dev shellcheck systemd git iproute2 procps python3 python3-venv
  python3-dev)

# Colours only where a person looks.
if [[ -t 1 ]]; then
  BOLD=$'\e[1m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m' ON_TERMINAL=1
else
  BOLD='' RED='' GREEN='' PLAIN='' ON_TERMINAL=''
fi

say() { printf '%s\n' "$*"; }
headline() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$PLAIN"; }
good() { printf '%s%s%s\n' "$GREEN" "$*" "$PLAIN"; }
complain() { printf '%s%s: %s%s\n' "$RED" "$(basename "$0")" "$*" "$PLAIN" >&2; }
die() {
  complain "$@"
  exit 1
}

# read_options SPECIFICATION ARGUMENT...: sets variables to what the arguments say, or prints the usage. The specification's
# words are --NAME=VARIABLE for an option with a value, --NAME=VARIABLE+ where name and value are added to an array, and
# --NAME:VARIABLE=VALUE for one without.
read_options() {
  local known=" $1 "
  shift
  while (($#)); do
    if [[ $1 == -h || $1 == --help ]]; then
      usage
      exit 0
    elif [[ $known =~ " $1:"([A-Z_]+)"="([^ ]*)" " ]]; then
      printf -v "${BASH_REMATCH[1]}" '%s' "${BASH_REMATCH[2]}"
      shift
      continue
    elif [[ ! $known =~ " $1="([A-Z_]+)("+"?)" " ]]; then
      die "unknown argument $1; --help lists them"
    fi
    (($# >= 2)) || die "$1 needs a value; --help lists the options"
    if [[ -n ${BASH_REMATCH[2]} ]]; then
      local -n array=${BASH_REMATCH[1]}
      array+=("$1" "$2")
    else
      printf -v "${BASH_REMATCH[1]}" '%s' "$2"
    fi
    shift 2
  done
}

# wait_until SECONDS COMMAND...: until the command succeeds; fails if it does not in time.
wait_until() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
}

# os_release NAME: what this system says of itself, as ID or PRETTY_NAME.
os_release() (
  # shellcheck source=/dev/null
  source /etc/os-release 2>/dev/null || true
  printf '%s\n' "${!1:-unknown}"
)

# Prints those of the packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      printf '%s\n' "$package"
    fi
  done
}

# Ends the script unless the packages are there or can be installed.
need_root_or_tools() {
  local system
  system=$(os_release PRETTY_NAME)
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "$system is not supported: this needs Debian 12 or 13, or Ubuntu 24.04 (apt-get); elsewhere install the" \
      "packages' counterparts and use cmake directly"
  fi
  case $(os_release ID)-$(os_release VERSION_ID) in
  debian-12) ;;
  debian-13 | ubuntu-24.04) complain "$system has the packages by their lists, but nobody has tried it" ;;
  debian-11 | ubuntu-20.04 | ubuntu-22.04)
    die "$system is not supported: its cmake is too old (22.04 has 3.22), 3.25 is needed; use Debian 12"
    ;;
  *) complain "$system is not supported, only Debian 12 is (Debian 13 and Ubuntu 24.04 may do); trying anyway" ;;
  esac
  local missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [[ -z $missing || $EUID -eq 0 ]] || die "packages are missing; run as root, or first: apt-get install $missing"
}

# apt_get LOG ARGUMENT...: apt-get, its output in LOG. It waits for dpkg's lock by itself; for the lists' lock, which apt's
# daily timer takes on a fresh machine, it fails at once.
apt_get() {
  local log=$1 deadline=$((SECONDS + 300)) waits=''
  shift
  until DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@" >"$log" 2>&1 </dev/null; do
    grep -q 'Could not get lock' "$log" || return 1
    ((SECONDS < deadline)) || return 1
    [[ -n $waits ]] || say "waiting for another apt-get"
    waits=1
    sleep 1
  done
}

# Installs what is missing; silent and quick if nothing is.
install_packages() {
  need_root_or_tools "$@"
  local missing log
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  log=$(mktemp)
  if ! { apt_get "$log" update && apt_get "$log" install -y --no-install-recommends "${missing[@]}"; }; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install the packages (its last words are above)"
  fi
  rm -f "$log"
}

# progress_bar LABEL DONE TOTAL [NOTE]: redraws one line on a terminal; elsewhere prints a line at each tenth.
PROGRESS_TENTH=-1
progress_bar() {
  local label=$1 done=$2 total=$3 note=${4:-} filled bar space
  ((total > 0)) || return 0
  ((done <= total)) || done=$total
  if [[ -n $ON_TERMINAL ]]; then
    filled=$((done * 30 / total))
    printf -v bar '%*s' "$filled" ''
    printf -v space '%*s' $((30 - filled)) ''
    printf '\r%-10s [%s%s] %3d%% %s\e[K' "$label" "${bar// /#}" "${space// /.}" $((done * 100 / total)) "$note"
    ((done < total)) || printf '\n'
  elif ((done * 10 / total != PROGRESS_TENTH)); then
    PROGRESS_TENTH=$((done * 10 / total))
    printf '%s: %d%% %s\n' "$label" $((done * 100 / total)) "$note"
  fi
  ((done < total)) || PROGRESS_TENTH=-1
}

# Reads ninja's output; shows a bar for "[n/m] ..." and passes on everything else (warnings, errors).
show_ninja() {
  local line broken=''
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      progress_bar "build" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}/${BASH_REMATCH[2]}"
      broken=''
    elif [[ $line != "ninja: no work to do." && $line != "ninja: Entering directory"* ]]; then
      [[ -z $ON_TERMINAL || -n $broken ]] || printf '\n'
      broken=1
      printf '%s\n' "$line"
    fi
  done
}

# build_with_bar DIRECTORY [TARGET...]: builds, all targets if none is given, under BUILD_PREFIX if that is set. Fails as
# the build does.
BUILD_PREFIX=()
build_with_bar() {
  local directory=$1
  shift
  NINJA_STATUS='[%f/%t] ' "${BUILD_PREFIX[@]}" cmake --build "$directory" ${1:+--target "$@"} 2>&1 </dev/null | show_ninja
}

# configure PRESET DIRECTORY [-DNAME=VALUE...]: quiet unless it fails.
configure() {
  local preset=$1 directory=$2 log
  shift 2
  log=$(mktemp)
  if ! cmake --preset "$preset" -B "$directory" "$@" >"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    complain "cmake could not configure $directory (its last words are above)"
    return 1
  fi
  rm -f "$log"
}
