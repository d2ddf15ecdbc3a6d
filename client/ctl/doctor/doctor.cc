#include "client/ctl/doctor/doctor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/doctor/checks.h"
#include "client/ctl/doctor/dial.h"
#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/host_checks.h"
#include "client/ctl/doctor/program_check.h"
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

// The first of these that is there and that this user may not use so; empty: none.
std::string HiddenOf(const std::vector<std::string>& paths, int mode = R_OK) {
  for (const std::string& path : paths) {
    if (!path.empty() && ::access(path.c_str(), mode) != 0 && errno == EACCES) return path;
  }
  return "";
}

HostFacts HostFactsOf(const Config& daemon_config) {
  HostFacts facts;
  facts.read = ReadKernelFile;
  facts.root = ::geteuid() == 0;
  facts.systemd = SystemdHasUnits("");
  facts.sysctl_conf = kSysctlConf;
  rlimit limit{};
  // The daemon raises its soft limit to the hard one (daemon/runtime/descriptors.h).
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.descriptors = limit.rlim_max;
  facts.congestion = ValueOf(daemon_config, "congestion");
  facts.memory_max = ParseBytes(ValueOf(daemon_config, "memory-max"));
  return facts;
}

struct Loaded {
  CertificateFacts facts;
  std::shared_ptr<net::Security> security;  // null: refused
};

// Loads the certificate of a program that would run with these options.
Loaded LoadedOf(const shell::TlsOptions& options, const shell::TlsUser& user) {
  Loaded loaded;
  CertificateFacts& facts = loaded.facts;
  const Result<shell::TlsSetup> setup = shell::SetUpTls(options, user, &facts.fault);
  facts.outcome = setup.status();
  if (const auto files = shell::ChooseFiles(options, user); files.ok()) facts.files = files.value();
  facts.old = tls::IdentityIn(facts.files.cert);
  facts.hidden = HiddenOf({options.dir, facts.files.ca, facts.files.cert, facts.files.key});
  if (!setup.ok()) return loaded;
  static_cast<SecurityFacts&>(facts) = tls::FactsOf(setup.value().security.get(), false);
  loaded.security = setup.value().security;
  return loaded;
}

// Requests that a master takes from everybody are no larger.
constexpr std::uint32_t kSegmentMax = 4000;
constexpr std::uint32_t kSegmentMin = 500;

// A request for the plan of a group that does not exist, which a master answers by kInvalidArgument, of so many bytes
// on the wire: one segment, as several would travel as a large one that only some devices cut.
control::PlanRequest RequestOfSize(std::uint32_t bytes, bool tls) {
  constexpr std::size_t kRestBytes = 128;   // more than all but the name takes
  constexpr std::size_t kRecordBytes = 22;  // of TLS 1.3: header, type, tag
  control::ToMaster message;
  message.mutable_plan()->set_group(std::string(bytes - kRestBytes, '.'));
  std::string frame;
  AppendFrame(message, frame);
  message.mutable_plan()->mutable_group()->append(bytes - frame.size() - (tls ? kRecordBytes : 0), '.');
  return message.plan();
}

// Gathers the facts in the order in which one leads to the next.
class Examination {
 public:
  Examination(const DoctorOrder& order, const DoctorContext& context) : order_(order), context_(context) {
    facts_.version = RINGWAY_VERSION;
    facts_.protocol_min = kProtocolVersionMin;
    facts_.protocol_max = kProtocolVersionMax;
  }

  Facts Run() {
    daemon_config_ = ReadConfig(kDaemonProgram, order_.daemon_config, "/etc/ringway/ringwayd.toml");
    master_config_ = ReadConfig(kMasterProgram, order_.master_config, "/etc/ringway/master.toml");
    LoadCertificates();
    AskPrograms();
    AskDaemon();
    AskMaster();
    DialAll();
    facts_.host = HostFactsOf(daemon_config_);
    return std::move(facts_);
  }

 private:
  Config ReadConfig(const char* program, const std::string& given, const char* usual) {
    const bool nothing_given = order_.daemon_config.empty() && order_.master_config.empty() &&
                               context_.master.empty() && context_.socket.empty();
    const std::string path = nothing_given && ::access(usual, F_OK) == 0 ? usual : given;
    if (path.empty()) return {};
    const Awaited<Config> config =
        Within<Config>(context_.timeout, path + " is not read in time", [path] { return shell::ReadConfigFile(path); });
    const Status outcome = config ? config->status() : Status::Ok();
    const bool hidden = outcome.code() == Code::kInvalidArgument && !HiddenOf({path}).empty();
    facts_.configs.push_back(
        {.program = program, .path = path, .outcome = outcome, .hidden = hidden, .no_thread = !config});
    return config && config->ok() ? config->value() : Config();
  }

  // Returns what asks a master with these options.
  std::shared_ptr<net::Security> Load(const std::string& whose, const shell::TlsOptions& options,
                                      const shell::TlsUser& user) {
    if (!options.given()) return nullptr;
    const Awaited<Loaded> loaded =
        Within<Loaded>(context_.timeout, "its files are not read in time: the disk, or its server, hangs",
                       [options, user] { return LoadedOf(options, user); });
    CertificateFacts& facts = facts_.certificates.emplace_back();
    if (loaded && loaded->ok()) {
      facts = loaded->value().facts;
    } else if (loaded) {
      facts.outcome = loaded->status();
    }
    facts.whose = whose;
    facts.no_thread = !loaded;
    return loaded && loaded->ok() ? loaded->value().security : nullptr;
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

  // A program whose certificates are refused, or that this user cannot read, would say no more than that.
  void AskPrograms() {
    for (ConfigFacts& config : facts_.configs) {
      const auto is_refused = [&](const CertificateFacts& one) {
        return one.whose == config.program && !one.outcome.ok();
      };
      if (!config.outcome.ok() || std::any_of(facts_.certificates.begin(), facts_.certificates.end(), is_refused)) {
        continue;
      }
      config.accepted = CheckConfigBy(OwnDirectory(), config.program, config.path, context_.timeout);
    }
  }

  void Ask(ProgramFacts* program, const char* kind, std::function<Result<std::string>()> query) {
    const Awaited<std::string> answer = Bounded(program->place, std::move(query));
    program->no_thread = !answer;
    if (!answer) return;
    program->outcome = answer->status();
    if (answer->ok()) ReadStatus(answer->value(), kind, program, &facts_.certificates);
  }

  // A query bounds each step only, and an answer of single bytes takes many.
  Awaited<std::string> Bounded(const std::string& place, std::function<Result<std::string>()> query) const {
    return Within<std::string>(2 * context_.timeout,
                               place + " answers too slowly: is it overloaded, or no ringway process?",
                               std::move(query));
  }

  void AskDaemon() {
    DaemonFacts& daemon = facts_.daemon;
    daemon.expected = !context_.socket.empty();
    daemon.place = daemon.expected ? context_.socket : ValueOf(daemon_config_, "socket");
    if (daemon.place.empty() && ::access(context_.usual_socket.c_str(), F_OK) == 0)
      daemon.place = context_.usual_socket;
    if (daemon.place.empty()) return;
    Ask(&daemon, "daemon",
        [socket = daemon.place, timeout = context_.timeout] { return shell::QueryDaemon(socket, timeout); });
    daemon.denied = daemon.outcome.code() == Code::kIo && !HiddenOf({daemon.place}, W_OK).empty();
    secured_ = std::any_of(facts_.certificates.begin(), facts_.certificates.end(),
                           [](const CertificateFacts& one) { return !one.running || !one.identity.empty(); });
  }

  // Returns the master that leads among these, if it is found; else the first that answers, else the first. The others
  // become facts.
  std::string LeaderAmong(const std::string& addresses) {
    const Result<std::vector<Endpoint>> masters = ParseEndpointsToDial(addresses);
    if (!masters.ok() || masters.value().size() == 1) return addresses;
    std::vector<ProgramFacts> asked;
    std::vector<CertificateFacts> ignored;  // the chosen one is asked again
    for (const Endpoint& one : masters.value()) {
      ProgramFacts& facts = asked.emplace_back(ProgramFacts{.place = ToString(one), .outcome = {}, .status = {}});
      const shell::MasterAddress whom = {{one}, security_};
      const auto query = [whom, timeout = context_.timeout] { return shell::QueryMaster(whom, timeout); };
      const Awaited<std::string> answer = Bounded(facts.place, query);
      facts.outcome =
          answer ? answer->status()
                 : Status(Code::kResourceExhausted, facts.place + " was not asked: no thread can be started here");
      if (answer && answer->ok()) ReadStatus(answer->value(), "master", &facts, &ignored);
    }
    const auto role_is = [](const char* role) {
      return [role](const ProgramFacts& one) { return TextAt(At(one.status, "master"), "role") == role; };
    };
    auto chosen = std::find_if(asked.begin(), asked.end(), role_is("leader"));
    if (chosen == asked.end()) chosen = std::find_if(asked.begin(), asked.end(), role_is("standby"));
    if (chosen == asked.end()) chosen = asked.begin();
    std::string place = chosen->place;
    asked.erase(chosen);
    facts_.other_masters = std::move(asked);
    return place;
  }

  void AskMaster() {
    MasterFacts& master = facts_.master;
    for (const std::string& addresses :
         {context_.master, ValueOf(daemon_config_, "master"), TextAt(facts_.daemon.self(), "master")}) {
      if (master.place.empty()) master.place = LeaderAmong(addresses);
    }
    master.expected = !master.place.empty();
    if (!master.expected) master.place = ValueOf(master_config_, "listen");
    master.locked_out = secured_ && security_ == nullptr;
    if (master.place.empty() || master.locked_out) return;
    const Awaited<net::SocketAddress> address =
        Within<net::SocketAddress>(context_.timeout, "the name in " + master.place + " is not resolved in time",
                                   [place = master.place] { return Resolve(place); });
    master.no_thread = !address;
    if (!address) return;
    // By number, so that the resolver's time is bounded too.
    const Result<Endpoint> number = address->ok() ? ParseEndpoint(net::ToString(address->value())) : address->status();
    master.outcome = number.status();
    if (!number.ok()) return;
    const shell::MasterAddress whom = {{number.value()}, security_};
    Ask(&master, "master", [whom, timeout = context_.timeout] { return shell::QueryMaster(whom, timeout); });
    master.clock_ahead_s = tls::SecondsUntil(TextAt(master.self(), "utc"));
    if (master.answers()) MeasurePath(whom, address->value());
  }

  // Whether a full-size segment reaches a master that answered: it also answers a request that fills one. Unlike what
  // Dial sends, that is a whole message, so the master's log does not report it.
  void MeasurePath(const shell::MasterAddress& whom, const net::SocketAddress& address) {
    DialFacts dial = {.who = kTheMaster, .address = facts_.master.place, .outcome = DialFacts::Outcome::kConnected};
    ReadPath(address, &dial);
    if (!dial.within_host && dial.segment_bytes >= kSegmentMin) {
      dial.segment_bytes = std::min(dial.segment_bytes, kSegmentMax);
      const Code full = AskInFull(whom, dial.segment_bytes);
      if (full == Code::kInvalidArgument) dial.full_arrives = true;  // its answer
      // A master that answers nothing any more is busy, and says nothing about the path.
      if (full == Code::kTimeout && AskInFull(whom, kSegmentMin) == Code::kInvalidArgument) dial.full_arrives = false;
    }
    facts_.dials.push_back(std::move(dial));
  }

  Code AskInFull(const shell::MasterAddress& whom, std::uint32_t segment_bytes) const {
    const control::PlanRequest request = RequestOfSize(segment_bytes, whom.security != nullptr);
    const auto query = [whom, request, timeout = context_.timeout] { return shell::QueryPlan(whom, request, timeout); };
    const Awaited<std::string> answer = Bounded(ToString(whom.endpoints.front()), query);
    return answer ? answer->status().code() : Code::kResourceExhausted;
  }

  void DialAll() {
    std::vector<DialFacts> targets;
    std::set<std::string> known;
    const auto add = [&](const std::string& who, const std::string& address) {
      if (!address.empty() && known.insert(address).second) targets.push_back({.who = who, .address = address});
    };
    // A master that answered is measured already; where the daemon's connection stands, its port is open.
    const MasterFacts& master = facts_.master;
    const Json& daemon = facts_.daemon.self();
    const bool stands = IsTrue(daemon, "master_connected") && TextAt(daemon, "master") == master.place;
    if (!master.answers() && master.outcome.code() != Code::kMasterUnreachable && !stands) {
      add(kTheMaster, master.place);
    }
    add("this daemon", TextAt(daemon, "address"));
    for (const Json& group : ObjectsAt(facts_.daemon.status, "groups")) {
      for (const Json& member : ObjectsAt(group, "members")) {
        if (At(member, "peer_id") != At(group, "self"))
          add("daemon " + TextAt(member, "name"), TextAt(member, "address"));
      }
    }
    for (const Json& one : ObjectsAt(master.status, "daemons")) {
      if (IsTrue(one, "connected")) add("daemon " + TextAt(one, "name"), TextAt(one, "address"));
    }
    constexpr std::size_t kDialsMax = 64;  // in a large installation the first ones show what is wrong with this host
    facts_.dials_left_out = targets.size() - std::min(targets.size(), kDialsMax);
    targets.resize(targets.size() - facts_.dials_left_out);
    const std::vector<DialFacts> dials = Dial(std::move(targets), {.timeout = context_.timeout, .tls = secured_});
    facts_.dials.insert(facts_.dials.end(), dials.begin(), dials.end());
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
      "finds what is wrong or slow on this host, with remedies: certificates, clocks, ports, kernel, limits, memory");
  doctor->add_option(
      "--daemon-config", order->daemon_config,
      "config file of ringwayd on this host (default: that of /etc/ringway, if nothing says where to look)");
  doctor->add_option("--master-config", order->master_config,
                     "config file of ringway-master on this host (default: likewise)");
  return doctor;
}

Findings Examine(const DoctorOrder& order, const DoctorContext& context) {
  return Diagnose(Examination(order, context).Run());
}

}  // namespace ringway::ctl
