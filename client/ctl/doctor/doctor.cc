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
#include "proto/frame_codec.h"
#include "proto/shell/options.h"
#include "proto/shell/query.h"
#include "proto/stream/address.h"
#include "proto/tls/utc.h"

namespace ringway::ctl {
namespace {

constexpr const char* kDaemonConfig = "/etc/ringway/ringwayd.toml";
constexpr const char* kMasterConfig = "/etc/ringway/master.toml";
// Of a large installation the first ones say what is wrong with this host.
constexpr std::size_t kDialsMax = 64;

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

// Of a program that would run with these options.
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

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Gathers the facts in the order in which one leads to the next.
class Examination {
 public:
  Examination(const DoctorOrder& order, const DoctorContext& context) : order_(order), context_(context) {
    facts_.version = RINGWAY_VERSION;
    facts_.protocol = {.min = kProtocolVersionMin, .max = kProtocolVersionMax};
  }

  Facts Run() {
    ReadConfigs();
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
    const std::string path = given.empty() && told_nothing() && Exists(usual) ? usual : given;
    if (path.empty()) return {};
    Result<Config> config = Within<Result<Config>>(context_.timeout, [path] {
                              return shell::ReadConfigFile(path);
                            }).value_or(Status(Code::kTimeout, path + " is not read in time"));
    facts_.configs.push_back({.program = program, .path = path, .outcome = config.status(), .accepted = {}});
    return config.ok() ? std::move(config).value() : Config();
  }

  void ReadConfigs() {
    daemon_config_ = ReadConfig(kDaemonProgram, order_.daemon_config, kDaemonConfig);
    master_config_ = ReadConfig(kMasterProgram, order_.master_config, kMasterConfig);
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

  // Where certificates are refused, or cannot be read as this user, a program would say no more than that.
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
    const Result<std::string> status = Ask(daemon.socket, [socket = daemon.socket, timeout = context_.timeout] {
      return shell::QueryDaemon(socket, timeout);
    });
    daemon.outcome = status.status();
    if (status.ok()) ReadDaemonStatus(status.value(), &daemon, &facts_.certificates);
    secured_ = std::any_of(facts_.certificates.begin(), facts_.certificates.end(),
                           [](const CertificateFacts& one) { return !one.running || !one.identity.empty(); });
    facts_.daemon = std::move(daemon);
  }

  // Where it is, and whether somebody but its own config file says so.
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
    const Result<std::string> status = QueryMaster(master.address);
    master.outcome = status.status();
    if (status.ok()) {
      ReadMasterStatus(status.value(), &master, &facts_.certificates);
      master.clock_ahead_s = tls::SecondsUntil(master.utc);
    }
    facts_.master = std::move(master);
  }

  // By number, so that the resolver's time is bounded too.
  Result<std::string> QueryMaster(const std::string& address) {
    const Result<net::SocketAddress> found = ResolveWithin(address, context_.timeout);
    if (!found.ok()) return found.status();
    const Result<Endpoint> number = ParseEndpoint(net::ToString(found.value()));
    if (!number.ok()) return number.status();
    return Ask(address, [master = shell::MasterAddress{.endpoint = number.value(), .security = security_},
                         timeout = context_.timeout] { return shell::QueryMaster(master, timeout); });
  }

  // A query is bounded step by step; who answers a byte at a time makes many steps of it.
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
    const bool dials_master = facts_.master && facts_.master->outcome.code() != Code::kMasterUnreachable;
    if (dials_master) add(kTheMaster, facts_.master->address);
    if (facts_.daemon && facts_.daemon->outcome.ok()) {
      add("this daemon", facts_.daemon->address);
      add_daemons(facts_.daemon->members);
    }
    if (facts_.master) add_daemons(facts_.master->daemons);
    facts_.dials_left_out = targets.size() - std::min(targets.size(), kDialsMax);
    targets.resize(targets.size() - facts_.dials_left_out);
    facts_.dials = Dial(targets, {.timeout = context_.timeout, .tls = secured_});
    if (dials_master) facts_.master->within_host = facts_.dials.front().within_host;
  }

  void LookAtHost() {
    const std::int64_t pid = facts_.daemon ? facts_.daemon->pid : 0;
    facts_.host = HostFactsOf({}, pid, kSysctlConf);
    if (const std::optional<User> user = UserOf({}, pid)) {
      for (CertificateFacts& one : facts_.certificates) {
        if (one.whose == kDaemonProgram && !one.running && MayRead(*user, one.files.key) == false)
          one.denied = user->name;
      }
    }
    facts_.host.congestion.wanted = ValueOf(daemon_config_, "congestion");
    facts_.host.memory_max = ParseBytes(ValueOf(daemon_config_, "memory-max"));
  }

  // Where the master is on this host, as it says itself, else as its options say.
  void LookAtJournal() {
    std::string path = order_.journal.empty() ? ValueOf(master_config_, "journal") : order_.journal;
    const bool here = facts_.master && facts_.master->within_host;
    if (path.empty() && here) path = facts_.master->journal_path;
    if (path == "none" || (path.empty() && !here && master_config_.empty())) return;
    facts_.journal = path.empty() ? JournalFacts() : ProbeJournal(path, context_.timeout);
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
      "doctor", "what will hurt on this host, each with its remedy: certificates, clocks, ports, kernel, limits, disk");
  doctor->add_option(
      "--daemon-config", order->daemon_config,
      "config file of ringwayd on this host (default: that of /etc/ringway, if nothing says where to look)");
  doctor->add_option("--master-config", order->master_config,
                     "config file of ringway-master on this host (default: likewise)");
  doctor->add_option("--journal", order->journal,
                     "journal of ringway-master on this host (default: as the master says)");
  return doctor;
}

Findings Examine(const DoctorOrder& order, const DoctorContext& context) {
  return Diagnose(Examination(order, context).Run());
}

}  // namespace ringway::ctl
