// The table of `ringwayctl doctor`: what a check may find, how serious that is, and the remedy. checks.cc says when.
#pragma once

#include <initializer_list>
#include <string>

#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

// {N} stands for the N-th word that the check has for it. A remedy that begins with "# " needs root.
struct Row {
  Level level;
  const char* what;
  const char* remedy = "";
  constexpr Row At(Level other) const { return {other, what, remedy}; }
};

// The finding of the row with these words, and its remedy where it hurts.
Finding Say(const Row& row, std::initializer_list<std::string> words = {});

namespace rows {

using enum Level;

// clang-format off
inline constexpr Row
  kConfigFits       {kOk,   "{0} accepts {1}"},
  kConfigHidden     {kSkip, "this user may not read {0}: run as root"},
  kConfigUnasked    {kSkip, "{1} is TOML; {0} was not asked"},
  kConfigRefused    {kFail, "{2}", "correct it; then {0} --config {1} --check-config"},

  kCertificate      {kOk,   "{0}: {1} until {2} ({3} days)", "{4}"},
  kNoCertificate    {kOk,   "{0}: no certificates: only addresses of this host are used"},
  kCertificateHidden{kSkip, "{0}: this user may not read {1}: run as root"},
  kInTheClear       {kWarn, "{0}: nothing is encrypted, and whoever reaches the port may join",
                     "ringwayctl certs init DIR, ringwayctl certs issue NAME --role ROLE --dir DIR, --tls-dir "
                             "for all"},
  kCertificateBad   {kFail, "{0}: {1}", "{2}"},

  kNoThread         {kFail, "{0} is not looked at: no thread can be started here",
                     "raise ulimit -u, or pids.max of the cgroup"},

  kNoAnswer         {kFail, "{0}", "kill -CONT lets a stopped program go on; else look at what keeps its host busy"},

  kMasterUnknown    {kSkip, "its address is not known: give --master HOST:PORT"},
  kMasterNotAsked   {kSkip, "the master at {0} is not asked: that takes certificates; give --tls-dir"},
  kMasterAnswers    {kOk,   "the master at {0} answers"},
  kMasterDiffers    {kFail, "{0}",
                     "compare the certificates here and there (ringwayctl certs show FILE): one authority "
                     "issues both; or correct the address"},
  kMasterSilent     {kFail, "{0}", "start ringway-master on its host, or correct the address"},
  kMasterStandsBy   {kOk,   "the master at {0} stands by, and the one at {1} leads"},
  kOtherStandsBy    {kOk,   "the master at {0} stands by"},
  kOtherSilent      {kWarn, "{0}", "while it is away there is one less to take over: start ringway-master on its host, "
                             "or correct --master"},
  kNobodyLeads      {kFail, "no master leads now: operations go on, joins and recoveries wait",
                     "if that stays, look at etcd: etcdctl endpoint health, on its hosts"},
  kPeerPending      {kWarn, "peer {0} is not in group {1} yet: {2}", "if that stays: ringwayctl doctor on its host"},
  kMorePending      {kWarn, "{0} more peers are not in their groups yet", "ringwayctl status lists them"},

  kDaemonUnknown    {kSkip, "its socket is not known: give --socket PATH"},
  kDaemonRuns       {kOk,   "daemon {0} runs, connected to the master at {1}"},
  kDaemonDenied     {kWarn, "this user may not connect to {0}",
                     "run as root to look; trainers need ringwayd --socket-mode 0666, or the group of its socket"},
  kDaemonOld        {kFail, "{0}",
                     "install the same release of ringwayd, ringwayctl and the library, and restart ringwayd"},
  kDaemonFull       {kFail, "{0}", "end trainers of this user that are of no use any more"},
  kDaemonSilent     {kFail, "{0}", "# {1}"},
  kDaemonAlone      {kFail, "daemon {0} has no connection to its master at {1}: nobody can join, and no loss "
                             "can be recovered",
                     "its log says why (master_unreachable, master_down); start the master, or correct --master"},

  kNoRelease        {kSkip, "nothing runs to compare ringwayctl {0}"},
  kSameRelease      {kOk,   "all {0}"},
  kOtherRelease     {kWarn, "{0} is {1}, {2} {3}: they understand each other",
                     "finish the upgrade: install the same release, and restart what is older"},
  kOtherProtocol    {kFail, "{0} {1} speaks protocol {4}, {2} {3} {5}: they do not understand each other",
                     "install the same release on all hosts, and restart what is older"},

  kNoClock          {kSkip, "no master answered that could tell its time"},
  kOldClock         {kSkip, "the master does not tell its time: it is older"},
  kClock            {kOk,   "the master's clock is {0} s {1} this host's", "on the host whose clock is wrong: {2}"},

  kNothingToDial    {kSkip, "no address is known to dial"},
  kPortOpen         {kOk,   "{0} accepts connections from here"},
  kPortRefuses      {kFail, "{0} refuses connections: nothing listens there", "start {1} there, or correct {2}"},
  kPortSilent       {kFail, "{0} does not answer: packets to it get lost",
                     "open its port in the firewalls between, or correct {2}{3}"},
  kPortFails        {kFail, "{0}: {4}", "look at its address and at the routes here"},
  kNotDialled       {kSkip, "{0} more daemons were not dialled: run ringwayctl doctor on their hosts"},
  kNoLane           {kFail, "no lane to {0} of group {1} stands",
                     "ringwayctl doctor on its host; open the daemons' ports to each other"},
  kMoreLanes        {kFail, "no lane to {0} more peers stands", "ringwayctl status --socket lists them"},
  kLinksStand       {kOk,   "links to {0} peers stand"},
  kNotAdvertised    {kSkip, "nobody can dial this daemon (--advertise none): it dials the others"},
  kWayBackUnknown   {kSkip, "whether others reach this daemon at {0} is seen from their hosts only: run "
                             "ringwayctl doctor there"},

  kNoPath           {kSkip, "no path to another host is known"},
  kPathUnmeasured   {kSkip, "{0} closed the connection before it could be measured"},
  kPathWhole        {kOk,   "full-size packets reach {0} ({1} bytes of data, path MTU {2}); the way back is "
                             "measured from there"},
  kBlackHole        {kFail, "{0} accepts connections, but full-size packets ({1} bytes of data, path MTU {2}) "
                             "vanish on the way",
                     "# sysctl -w net.ipv4.tcp_mtu_probing=1; better: let ICMP \"fragmentation needed\" through the "
                     "firewalls, or lower the MTU here (ip link set dev DEVICE mtu 1400)"},
  kSysctlHidden     {kSkip, "{0} cannot be read here"},
  kSysctl           {kOk,   "{0} = {1}"},
  kSysctlSlow       {kWarn, "{0} = {1}: long paths want {2}",
                     "# sysctl -w {0}='{2}'; for good: 60-ringway.conf to /etc/sysctl.d, and sysctl --system"},

  kCongestionHidden {kSkip, "this kernel does not say which congestion controls it has"},
  kCongestion       {kOk,   "{0} is there, and allowed"},
  kNotLoaded        {kWarn, "this kernel has {1}, but not {0}{2}",
                     "# modprobe tcp_{0}; for good: echo tcp_{0} >/etc/modules-load.d/ringway.conf"},
  kNotAllowed       {kWarn, "congestion control {0} is allowed to root only{2}",
                     "# sysctl -w net.ipv4.tcp_allowed_congestion_control='{3} {0}'"},

  kLimitHidden      {kSkip, "the limit of open files cannot be read here"},
  kFiles            {kOk,   "{0}{1} files"},
  kLanesFull        {kWarn, "{0}{1} files: its {2} lanes are all that this allows", "{3}"},
  kFilesFew         {kWarn, "{0}{1} files: lanes, regions and sessions of a large group do not fit", "{3}"},

  kNoBudget         {kSkip, "no daemon runs, and no config file has its memory-max"},
  kBudgetFits       {kOk,   "--memory-max is {0}, and there is room for it"},
  kBudgetTight      {kWarn, "--memory-max is {0}, but {1} {2}: it needs up to 2 GiB beside it", "{3}"},
  kBudgetTooLarge   {kFail, "--memory-max is {0}, but {1} {2}: the daemon is killed before it reaches its own limit",
                     "{3}"},
  kMemoryTaken      {kWarn, "--memory-max is {0}, of which it has {1}, but only {2} are free: others have the rest",
                     "free memory on this host, or start ringwayd with less --memory-max"},

  kNoJournalKnown   {kSkip, "no master answered that could tell of its journal"},
  kJournal          {kOk,   "the master writes {0}"},
  kNoJournal        {kWarn, "the master has no journal: when it restarts it has forgotten all groups",
                     "start ringway-master with --journal FILE"},
  kJournalFails     {kFail, "the master cannot write its journal, so no group can change: {0}",
                     "make room on its disk: df -h, on the master's host"},
  kEtcdFails        {kFail, "the master cannot write to {1}, so no group can change: {0}",
                     "look at etcd and at the network to it: etcdctl endpoint health, on the master's host"};
// clang-format on

}  // namespace rows
}  // namespace ringway::ctl
