#include "client/ctl/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "client/ctl/doctor/checks.h"
#include "client/ctl/doctor/dial.h"
#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/host_facts.h"
#include "client/ctl/doctor/program_check.h"
#include "client/ctl/doctor/program_facts.h"
#include "client/ctl/doctor/sysctl_conf.h"
#include "client/ctl/doctor/within.h"
#include "proto/byte_size.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/shell/options.h"
#include "proto/shell/query.h"
#include "proto/stream/address.h"
#include "proto/tls/utc.h"

namespace ringway::ctl {
namespace {

constexpr const char* kDaemonConfig = "/etc/ringway/ringwayd.toml";
constexpr const char* kMasterConfig = "/etc/ringway/master.toml";
// In a large installation the first ones show what is wrong with this host.
constexpr std::size_t kDialsMax = 64;
// Requests that a master takes from everybody are no larger.
constexpr std::uint32_t kSegmentMax = 4000;
constexpr std::uint32_t kSegmentMin = 500;

using Config = shell::ConfigValues;

std::string ValueOf(const Config& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

shell::TlsOptions TlsOf(const Config& config) {
  return {.dir = ValueOf(config, "tls-dir"),
          .ca = ValueOf(config, "tls-ca"),
          .cert = ValueOf(config, "tls-cert"),
          .key = ValueOf(config, "tls-key")};
}

// The first of these that is there and that this user may not read; empty: none.
std::string HiddenOf(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!path.empty() && ::access(path.c_str(), R_OK) != 0 && errno == EACCES) return path;
  }
  return "";
}

struct Loaded {
  CertificateFacts facts;
  std::shared_ptr<net::Security> security;  // null: refused
};

// Loads the certificate of a program that would run with these options.
Loaded LoadedOf(const std::string& whose, const shell::TlsOptions& options, const shell::TlsUser& user) {
  Loaded loaded;
  CertificateFacts& facts = loaded.facts;
  facts.whose = whose;
  const Result<shell::TlsSetup> setup = shell::SetUpTls(options, user, &facts.fault);
  facts.outcome = setup.status();
  if (const auto files = shell::ChooseFiles(options, user); files.ok()) facts.files = files.value();
  facts.old = tls::IdentityIn(facts.files.cert);
  facts.hidden = HiddenOf({options.dir, facts.files.ca, facts.files.cert, facts.files.key});
  if (!setup.ok()) return loaded;
  const SecurityFacts security = tls::FactsOf(setup.value().security.get(), false);
  facts.identity = security.identity;
  facts.until = security.until;
  facts.days_left = security.days_left;
  loaded.security = setup.value().security;
  return loaded;
}

// A request for the plan of a group that does not exist, which a master answers by kInvalidArgument, of so many bytes on
// the wire. REQUIRES: kSegmentMin <= bytes <= kSegmentMax.
control::PlanRequest RequestOfSize(std::size_t bytes, bool tls) {
  constexpr std::size_t kRestBytes = 128;   // more than all but the name takes
  constexpr std::size_t kRecordBytes = 22;  // of TLS 1.3: header, type, tag
  control::ToMaster message;
  message.mutable_plan()->set_group(std::string(bytes - kRestBytes, '.'));
  std::string frame;
  AppendFrame(message, frame);
  const std::size_t missing = bytes - frame.size() - (tls ? kRecordBytes : 0);
  message.mutable_plan()->mutable_group()->append(missing, '.');
  return message.plan();
}

// Gathers the facts in the order in which one leads to the next.
class Examination {
 public:
  Examination(const DoctorOrder& order, const DoctorContext& context) : order_(order), context_(context) {
    facts_.version = RINGWAY_VERSION;
    facts_.protocol = {.min = kProtocolVersionMin, .max = kProtocolVersionMax};
  }

  Facts Run() {
    daemon_config_ = ReadConfig(kDaemonProgram, order_.daemon_config, kDaemonConfig);
    master_config_ = ReadConfig(kMasterProgram, order_.master_config, kMasterConfig);
    LoadCertificates();
    AskPrograms();
    AskDaemon();
    AskMaster();
    DialAll();
    LookAtHost();
    LookAtJournal();
    return std::move(facts_);
  }

 private:
  bool told_nothing() const {
    return order_.daemon_config.empty() && order_.master_config.empty() && context_.master.empty() &&
           context_.socket.empty();
  }

  Config ReadConfig(const char* program, const std::string& given, const char* usual) {
    std::error_code ignored;
    const bool finds = given.empty() && told_nothing() && std::filesystem::exists(usual, ignored);
    const std::string path = finds ? usual : given;
    if (path.empty()) return {};
    struct Read {
      Result<Config> config;
      bool hidden = false;
    };
    const Read read = Within<Read>(context_.timeout, [path] {
                        return Read{shell::ReadConfigFile(path), !HiddenOf({path}).empty()};
                      }).value_or(Read{Status(Code::kTimeout, path + " is not read in time")});
    facts_.configs.push_back(
        {.program = program, .path = path, .outcome = read.config.status(), .hidden = read.hidden});
    return read.config.ok() ? read.config.value() : Config();
  }

  // Returns what asks a master with these options.
  std::shared_ptr<net::Security> Load(const std::string& whose, const shell::TlsOptions& options,
                                      const shell::TlsUser& user) {
    if (!options.given()) return nullptr;
    std::optional<Loaded> loaded =
        Within<Loaded>(context_.timeout, [whose, options, user] { return LoadedOf(whose, options, user); });
    if (!loaded) {
      loaded.emplace();
      loaded->facts.whose = whose;
      loaded->facts.outcome = {Code::kTimeout, "its files are not read in time: the disk, or its server, hangs"};
    }
    facts_.certificates.push_back(std::move(loaded->facts));
    return loaded->security;
  }

  void LoadCertificates() {
    const std::vector<ProcessRole> any = {ProcessRole::kOperator, ProcessRole::kMaster, ProcessRole::kDaemon};
    const auto own = Load("ringwayctl", context_.tls, {.roles = any});
    const auto daemon = Load(kDaemonProgram, TlsOf(daemon_config_),
                             {.roles = {ProcessRole::kDaemon}, .name = ValueOf(daemon_config_, "name")});
    const auto master = Load(kMasterProgram, TlsOf(master_config_), {.roles = {ProcessRole::kMaster}});
    security_ = own != nullptr ? own : daemon != nullptr ? daemon : master;
    secured_ = !facts_.certificates.empty();
  }

  // Not asked where its certificates are refused or this user cannot read them: it would say no more than that.
  void AskPrograms() {
    for (ConfigFacts& config : facts_.configs) {
      const bool has_certificates =
          std::all_of(facts_.certificates.begin(), facts_.certificates.end(),
                      [&](const CertificateFacts& one) { return one.whose != config.program || one.outcome.ok(); });
      if (!config.outcome.ok() || !has_certificates) continue;
      config.accepted = CheckConfigBy(OwnDirectory(), config.program, config.path, context_.timeout);
    }
  }

  void AskDaemon() {
    DaemonFacts daemon;
    daemon.expected = !context_.socket.empty();
    daemon.socket = daemon.expected ? context_.socket : ValueOf(daemon_config_, "socket");
    if (daemon.socket.empty()) return;
    daemon.denied = Within<bool>(context_.timeout, [socket = daemon.socket] {
                      return ::access(socket.c_str(), W_OK) != 0 && errno == EACCES;
                    }).value_or(false);
    const Result<std::string> status = Ask(daemon.socket, [socket = daemon.socket, timeout = context_.timeout] {
      return shell::QueryDaemon(socket, timeout);
    });
    daemon.outcome = status.status();
    if (status.ok()) ReadDaemonStatus(status.value(), &daemon, &facts_.certificates);
    secured_ = std::any_of(facts_.certificates.begin(), facts_.certificates.end(),
                           [](const CertificateFacts& one) { return !one.running || !one.identity.empty(); });
    facts_.daemon = std::move(daemon);
  }

  // Its address, and whether more than its own config file names it.
  std::pair<std::string, bool> MasterAddress() const {
    for (const std::string& address :
         {context_.master, ValueOf(daemon_config_, "master"), facts_.daemon ? facts_.daemon->master : std::string()}) {
      if (!address.empty()) return {address, true};
    }
    return {ValueOf(master_config_, "listen"), false};
  }

  void AskMaster() {
    MasterFacts master;
    std::tie(master.address, master.expected) = MasterAddress();
    if (master.address.empty()) return;
    master.locked_out = secured_ && security_ == nullptr;
    if (master.locked_out) {
      master.outcome = {Code::kInvalidArgument, "no certificate can be used"};
      facts_.master = std::move(master);
      return;
    }
    const Result<net::SocketAddress> address = ResolveWithin(master.address, context_.timeout);
    const Result<std::string> status =
        address.ok()
            ? Query(address.value(),
                    [timeout = context_.timeout](const auto& whom) { return shell::QueryMaster(whom, timeout); })
            : address.status();
    master.outcome = status.status();
    if (status.ok()) {
      ReadMasterStatus(status.value(), &master, &facts_.certificates);
      master.clock_ahead_s = tls::SecondsUntil(master.utc);
      if (master.outcome.ok()) MeasurePath(address.value(), &master);
    }
    facts_.master = std::move(master);
  }

  // By number, so that the resolver's time is bounded too.
  Result<std::string> Query(const net::SocketAddress& address,
                            const std::function<Result<std::string>(const shell::MasterAddress&)>& query) {
    const Result<Endpoint> number = ParseEndpoint(net::ToString(address));
    if (!number.ok()) return number.status();
    return Ask(net::ToString(address),
               [query, master = shell::MasterAddress{number.value(), security_}] { return query(master); });
  }

  // Whether a full-size segment reaches a master that answered: it also answers a request that fills one. Unlike what
  // Dial sends, that is a whole message, so the master's log does not report it.
  void MeasurePath(const net::SocketAddress& address, MasterFacts* master) {
    DialFacts dial = {.who = kTheMaster, .address = master->address, .outcome = DialFacts::Outcome::kConnected};
    ReadPath(address, &dial);
    master->within_host = dial.within_host;
    if (!dial.within_host && dial.segment_bytes >= kSegmentMin) {
      dial.segment_bytes = std::min(dial.segment_bytes, kSegmentMax);
      const Code full = AskInFull(address, dial.segment_bytes);
      if (full == Code::kInvalidArgument) dial.full_arrives = true;  // its answer
      // A master that answers nothing any more is busy, and says nothing about the path.
      if (full == Code::kTimeout && AskInFull(address, kSegmentMin) == Code::kInvalidArgument)
        dial.full_arrives = false;
    }
    facts_.dials.push_back(std::move(dial));
  }

  // A request that fills a segment of so many bytes.
  Code AskInFull(const net::SocketAddress& address, std::uint32_t segment_bytes) {
    const control::PlanRequest request = RequestOfSize(segment_bytes, security_ != nullptr);
    const auto query = [request, timeout = context_.timeout](const auto& whom) {
      return shell::QueryPlan(whom, request, timeout);
    };
    return Query(address, query).status().code();
  }

  // A query bounds each step only, and an answer of single bytes takes many.
  Result<std::string> Ask(const std::string& whom, std::function<Result<std::string>()> query) const {
    const auto answer = Within<Result<std::string>>(2 * context_.timeout, std::move(query));
    return answer.value_or(
        Status(Code::kTimeout, whom + " answers too slowly: is it overloaded, or no ringway process?"));
  }

  void DialAll() {
    std::vector<DialTarget> targets;
    std::set<std::string> known;
    const auto add = [&](const std::string& who, const std::string& address) {
      if (!address.empty() && known.insert(address).second) targets.push_back({.who = who, .address = address});
    };
    const auto add_daemons = [&](const std::vector<DaemonEntry>& daemons) {
      for (const DaemonEntry& one : daemons) {
        if (one.connected) add("daemon " + one.name, one.address);
      }
    };
    // A master that answered is measured already; where the daemon's connection stands, its port is open.
    const bool silent =
        facts_.master && !facts_.master->outcome.ok() && facts_.master->outcome.code() != Code::kMasterUnreachable &&
        !(facts_.daemon && facts_.daemon->master_connected && facts_.daemon->master == facts_.master->address);
    if (silent) add(kTheMaster, facts_.master->address);
    if (facts_.daemon && facts_.daemon->outcome.ok()) {
      add("this daemon", facts_.daemon->address);
      add_daemons(facts_.daemon->members);
    }
    if (facts_.master) add_daemons(facts_.master->daemons);
    facts_.dials_left_out = targets.size() - std::min(targets.size(), kDialsMax);
    targets.resize(targets.size() - facts_.dials_left_out);
    for (DialFacts& dial : Dial(targets, {.timeout = context_.timeout, .tls = secured_})) {
      facts_.dials.push_back(std::move(dial));
    }
    if (silent) facts_.master->within_host = facts_.dials.front().within_host;
  }

  void LookAtHost() {
    const std::int64_t pid = facts_.daemon ? facts_.daemon->pid : 0;
    facts_.host = HostFactsOf({}, pid, kSysctlConf);
    if (const std::optional<User> user = UserOf({}, pid)) {
      for (CertificateFacts& one : facts_.certificates) {
        if (one.whose != kDaemonProgram || one.running || MayRead(*user, one.files.key) != false) continue;
        one.denied = user->name;
        one.denied_group = user->groups.back();
      }
    }
    facts_.host.congestion.wanted = ValueOf(daemon_config_, "congestion");
    facts_.host.memory_max = ParseBytes(ValueOf(daemon_config_, "memory-max"));
  }

  std::string FindLeftJournal() const {
    return Within<std::string>(context_.timeout, [] { return FindJournal(StateDirectories()); }).value_or("");
  }

  // Where the options or the master say; where no master answers, a journal may have been left.
  void LookAtJournal() {
    std::string path = order_.journal.empty() ? ValueOf(master_config_, "journal") : order_.journal;
    const bool answers = facts_.master && facts_.master->outcome.ok();
    const bool here = facts_.master && facts_.master->within_host;
    if (path.empty() && here) path = facts_.master->journal_path;
    const bool left = path.empty() && !answers && !(path = FindLeftJournal()).empty();
    if (path == "none" || (path.empty() && !here && master_config_.empty())) return;
    facts_.journal = path.empty() ? JournalFacts() : ProbeJournal(path, context_.timeout);
    facts_.journal->left = left;
  }

  const DoctorOrder& order_;
  const DoctorContext& context_;
  Config daemon_config_;
  Config master_config_;
  std::shared_ptr<net::Security> security_;
  bool secured_ = false;  // this installation has certificates
  Facts facts_;
};

}  // namespace

const CLI::App* AddDoctor(CLI::App& app, DoctorOrder* order) {
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "finds what is wrong or slow on this host, with remedies: certificates, clocks, ports, kernel, limits, disk");
  doctor->add_option(
      "--daemon-config", order->daemon_config,
      "config file of ringwayd on this host (default: that of /etc/ringway, if nothing says where to look)");
  doctor->add_option("--master-config", order->master_config,
                     "config file of ringway-master on this host (default: likewise)");
  doctor->add_option(
      "--journal", order->journal,
      "journal of ringway-master on this host (default: as the master says, else found in the default places)");
  return doctor;
}

Findings Examine(const DoctorOrder& order, const DoctorContext& context) {
  return Diagnose(Examination(order, context).Run());
}

}  // namespace ringway::ctl
