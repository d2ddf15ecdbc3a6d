#!/usr/bin/env bash
# Stands in for rsh where mpirun starts a host of the emulated WAN: wan_mpi_agent.sh ADDRESS COMMAND... The address's last
# number is the line of $NAMESPACES that names the host's namespace. Each host has a name of its own, for Open MPI takes
# hosts of one name for one host.
set -euo pipefail
host=${1##*.}
shift
space=$(sed -n "${host}p" "$NAMESPACES")
# shellcheck disable=SC2016  # for the inner shell
exec ip netns exec "$space" unshare --uts bash -c 'hostname "$0" && exec bash -c "$*"' "wanhost$host" "$@"
