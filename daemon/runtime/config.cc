#include "daemon/runtime/config.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/runtime/flight_deck.h"
#include "proto/byte_size.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"
#include "proto/shell/options.h"
#include "proto/shell/places.h"
#include "proto/stream/address.h"
#include "proto/stream/socket_options.h"

namespace ringway::daemon {
namespace {

constexpr char kProgram[] = "ringwayd";
constexpr char kUplinkLimit[] = "uplink-limit-mbit";
constexpr std::uint64_t kMemoryMin = 64 << 20;
constexpr std::uint32_t kDataThreadsMax = 32;
constexpr std::uint32_t kDscpMax = 63;
constexpr std::uint64_t kSiteMbitMax = 8'000'000;
constexpr std::uint32_t kGraceMsMax = 24 * 3600 * 1000;

// Stable across restarts, unless the port changes.
std::string DefaultName(const Endpoint& listen) {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"host"};
  const bool lasts = listen.port != 0;
  return std::string(host.data()) + (lasts ? ":" + std::to_string(listen.port) : "-" + std::to_string(::getpid()));
}

Endpoint EndpointOrExit(const std::string& option, const std::string& text) {
  const auto endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) shell::Die(kProgram, option + ": " + endpoint.status().text());
  return endpoint.value();
}

mode_t ModeOrExit(const std::string& text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 0777) {
    shell::Die(kProgram, "--socket-mode: '" + text +
                             "' is no file mode; give octal digits, for example 0660 (in a config file "
                             "\"0660\" or 0o660)");
  }
  return static_cast<mode_t>(mode);
}

mode_t DefaultMode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666 & ~mask);
}

// "USER", "USER:GROUP" or ":GROUP", names or numbers.
local::SocketFile OwnerOrExit(const std::string& text) {
  local::SocketFile file;
  const auto number = [](const std::string& name, auto& id) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    return error == std::errc() && end == name.data() + name.size();
  };
  const std::size_t colon = text.find(':');
  const std::string user = text.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!user.empty() && !number(user, file.owner)) {
    const passwd* const known = ::getpwnam(user.c_str());  // NOLINT(concurrency-mt-unsafe): one thread yet
    if (known == nullptr) shell::Die(kProgram, "--socket-owner: this host has no user '" + user + "'");
    file.owner = known->pw_uid;
  }
  if (!group.empty() && !number(group, file.group)) {
    const ::group* const known = ::getgrnam(group.c_str());  // NOLINT(concurrency-mt-unsafe): one thread yet
    if (known == nullptr) shell::Die(kProgram, "--socket-owner: this host has no group '" + group + "'");
    file.group = known->gr_gid;
  }
  return file;
}

std::uint64_t HalfTheRam() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

// Leaves most cores to the trainers.
std::uint32_t DataThreadsFor(std::uint32_t cores) { return std::clamp(cores / 4, 1U, 8U); }

// A name that cannot be resolved now may be later.
bool IsElsewhere(const Endpoint& master) {
  const auto address = net::ResolveBlocking(master, false);
  return address.ok() && !net::IsLoopback(address.value());
}

// Checks, as far as this host knows, that others can dial the advertised address.
void CheckListenOrExit(const Config& config, const Endpoint& master) {
  const std::string what = "--listen " + config.listen;
  if (net::IsWildcard(config.listen_address)) {
    shell::Die(kProgram, what + " is every address of this host; say with --advertise HOST:PORT which one others dial");
  }
  if (net::IsLoopback(config.listen_address) && IsElsewhere(master)) {
    shell::Die(kProgram, what + " is reached from this host only, and the master at " + config.master +
                             " tells it to other hosts; listen on an address of this host's network, or say with "
                             "--advertise HOST:PORT which one others dial");
  }
}

// Returns the first.
Endpoint CheckMastersOrExit(const Config& config, bool allowed) {
  const Result<std::vector<Endpoint>> masters = ParseEndpointsToDial(config.master);
  if (!masters.ok()) shell::Die(kProgram, "--master: " + masters.status().text());
  for (const Endpoint& master : masters.value()) {
    const Status dials = allowed ? Status::Ok() : shell::CheckDialsLoopback("--master", master);
    if (!dials.ok()) shell::Die(kProgram, dials.text());
  }
  return masters.value().front();
}

void CheckOrExit(Config& config, const Endpoint& listen) {
  const bool allowed = config.insecure || config.tls.security != nullptr;
  const Endpoint master = CheckMastersOrExit(config, allowed);
  const shell::Reach reach = config.advertise.has_value() ? shell::Reach::kAny : shell::Reach::kOtherHosts;
  const auto address = shell::ResolveListen("--listen", listen, allowed ? reach : shell::Reach::kThisHost);
  if (!address.ok()) shell::Die(kProgram, address.status().text());
  config.listen_address = address.value();
  if (config.advertise.has_value()) {
    if (!config.advertise->empty() && EndpointOrExit("--advertise", *config.advertise).port == 0) {
      shell::Die(kProgram, "--advertise: port 0 cannot be dialled; give the port that others reach");
    }
  } else {
    CheckListenOrExit(config, master);
  }
  const Status http = shell::CheckHttpAddress(config.http, allowed ? shell::Reach::kOtherHosts : shell::Reach::kAny);
  if (!http.ok()) shell::Die(kProgram, http.text());
  if (config.site_mbit > 0 && config.site.empty()) {
    shell::Die(kProgram, "--site-mbit: name the site that shares it with --site");
  }
  if (!config.congestion.empty()) {
    const Status status = net::CheckCongestion(config.congestion);
    if (!status.ok()) shell::Die(kProgram, "--congestion: " + status.text());
  }
}

// Reports what the start would find out.
void CheckPlacesOrExit(const Config& config) {
  for (const Status& status :
       {shell::CheckListenPlace("--listen", config.listen), shell::CheckSocketPlace("--socket", config.socket),
        config.http.empty() ? Status::Ok() : shell::CheckListenPlace("--http", config.http),
        config.flight_file.value_or("").empty()
            ? Status::Ok()
            : shell::CheckFilePlace({.option = "--flight-file", .path = *config.flight_file}),
        config.flight_file.value_or("").empty() ? Status::Ok() : FlightMemory::Check(*config.flight_file),
        shell::CheckLog(config.log)}) {
    if (!status.ok()) shell::Die(kProgram, status.text());
  }
}

void SetUpTlsOrExit(const shell::TlsOptions& options, Config& config) {
  if (config.insecure && options.given()) shell::Die(kProgram, shell::kTlsOrInsecure);
  Result<shell::TlsSetup> setup = shell::SetUpTls(options, {.roles = {ProcessRole::kDaemon}, .name = config.name});
  if (!setup.ok()) shell::Die(kProgram, setup.status().text());
  config.tls = std::move(setup).value();
  if (config.tls.security != nullptr) config.name = config.tls.security->credentials()->self().name;
}

// Names of users become their numbers now: looking them up may take its time.
Permits UsersOrExit(const std::vector<std::string>& rules) {
  Result<Permits> permits = Permits::Parse(rules);
  if (!permits.ok()) shell::Die(kProgram, "--allow-user: " + permits.status().text());
  for (Permits::Rule& rule : permits.value().rules()) {
    for (std::string& name : rule.names) {
      const passwd* user = ::getpwnam(name.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread
      if (user == nullptr) shell::Die(kProgram, "--allow-user: there is no user " + name + " on this host");
      name = std::to_string(user->pw_uid);
    }
  }
  return std::move(permits).value();
}

// Before they are checked.
struct PlaceTexts {
  std::string socket_mode, socket_owner, advertise, flight_file;
};

// In the directory that systemd makes for this service, if it does: where a file costs memory, and no disk.
std::string DefaultFlightFile() {
  const char* const directory = ::getenv("RUNTIME_DIRECTORY");  // NOLINT(concurrency-mt-unsafe): one thread yet
  const std::string path = directory == nullptr ? "" : directory;
  return path.empty() || path.find(':') != std::string::npos ? "" : path + "/ringwayd.flight";
}

// The options that say who the daemon is, and where.
void AddPlaces(CLI::App& app, Config& config, PlaceTexts& texts) {
  app.add_option("--master", config.master,
                 "HOST:PORT of ringway-master; of several, with commas between: it follows the one that leads")
      ->required();
  app.add_option("--socket", config.socket, "path of the Unix socket that trainers connect to")->required();
  app.add_option("--socket-mode", texts.socket_mode,
                 "its file mode: who may be a trainer (default: 0666 less the umask)")
      ->type_name(shell::kOctal);
  app.add_option("--socket-owner", texts.socket_owner,
                 "its owner, as USER, USER:GROUP or :GROUP (default: whoever runs the daemon)")
      ->check(shell::NotEmpty());
  app.add_option("--listen", config.listen, "HOST:PORT that other daemons connect to; port 0 takes a free one")
      ->required();
  app.add_option("--advertise", texts.advertise,
                 "HOST:PORT that they dial, where it differs as behind NAT; none: they cannot reach this host, and it "
                 "dials them (default: --listen)");
  app.add_option("--site", config.site,
                 "label of this host's site; hosts of one site are near each other (default: none)")
      ->check(shell::Label(abi::kPeerNameBytes - 1));
  app.add_option("--site-mbit", config.site_mbit,
                 "Mbit/s that all hosts of the site can send to other sites together, where they share an uplink "
                 "(default: not known)")
      ->check(CLI::Range(std::uint64_t{1}, kSiteMbitMax));
  app.add_option("--name", config.name,
                 "label of this daemon, its own at the master (default: the certificate's; without TLS host "
                 "name:port, with port 0 host name-pid)")
      ->check(shell::Label(abi::kPeerNameBytes - 1));
}

// The options that say how it uses the network.
void AddPathOptions(CLI::App& app, Config& config) {
  app.add_option("--lanes", config.lanes,
                 "connections a pair of peers (default: 2 on this host; elsewhere " + std::to_string(kLanesRemote) +
                     ", and up to " + std::to_string(kLanesMax) + " where more are faster)")
      ->check(CLI::Range(1U, kLanesMax));
  app.add_option("--data-threads", config.data_threads,
                 "threads that move data (default: 1), one of which does everything else too; 0: a quarter of the "
                 "cores, 1 to 8")
      ->check(CLI::Range(0U, kDataThreadsMax));
  app.add_option("--congestion", config.congestion,
                 "congestion control of links that leave this host (default: cubic below 1 ms, bbr beyond)");
  app.add_option("--share", config.share,
                 "take about as much of a path beside others' traffic as so many TCP connections")
      ->check(CLI::Range(1U, flow::kShareMax))
      ->capture_default_str();
  app.add_option("--state-share", config.state_share,
                 "percent of the uplink for the state that a newcomer takes from here before it is admitted, while "
                 "anything else is to be sent; all of it otherwise")
      ->check(CLI::Range(1U, 99U))
      ->capture_default_str();
  app.add_option(std::string("--") + kUplinkLimit, config.uplink_limit_mbit,
                 "Mbit/s that this daemon sends to other hosts at most, with TCP's headers; SIGHUP reads it again "
                 "(default: no limit)")
      ->check(CLI::Range(std::uint64_t{1}, kSiteMbitMax));
  app.add_option("--dscp", config.dscp, "class of its packets to other hosts, for routers that tell them apart")
      ->check(CLI::Range(0U, kDscpMax))
      ->capture_default_str();
  app.add_option("--probe-bytes", config.probe_bytes,
                 "send this much at most to measure a path once; 0: learn of paths by the operations only")
      ->transform(shell::Bytes(0, kByteSizeMax))
      ->type_name("SIZE")
      ->default_str(BytesText(config.probe_bytes));
  app.add_option("--probe-bytes-a-day", config.probe_bytes_a_day,
                 "send this much at most, to each other host, to measure paths in a day; 0: no limit")
      ->transform(shell::Bytes(0, kByteSizeMax))
      ->type_name("SIZE")
      ->default_str(BytesText(config.probe_bytes_a_day));
}

// All options, and where their values go.
struct CommandLine {
  CommandLine();

  CLI::App app{"ringwayd: reduces the gradients of this host's trainers with those of other hosts", kProgram};
  Config config;
  PlaceTexts places;
  std::vector<std::string> users;
  shell::TlsOptions tls;
  bool only_checks = false;
};

CommandLine::CommandLine() {
  AddPlaces(app, config, places);
  app.add_option("--http", config.http, "HOST:PORT that serves /metrics, /healthz and /readyz (default: none)")
      ->check(shell::NotEmpty());
  app.add_option(
         "--allow-user", users,
         "GROUPS=USER,USER...: users of this host whose trainers may join groups, groups with * and ?; repeatable, "
         "or with ; between (default: any)")
      ->delimiter(';');
  AddPathOptions(app, config);
  app.add_option("--memory-max", config.memory_max,
                 "memory for trainers' regions and for what is kept for them, 64M at least (default: half the RAM); "
                 "one session gets half of it at most")
      ->transform(shell::Bytes(kMemoryMin, kByteSizeMax))
      ->type_name("SIZE");
  app.add_option("--grace-ms", config.grace_ms, "how long running operations may take to finish on SIGTERM")
      ->check(CLI::Range(0U, kGraceMsMax))
      ->default_str(std::to_string(config.grace_ms) + " ms");
  app.add_option("--flight-file", places.flight_file,
                 "file that the flight recorder keeps, for ringwayctl trace --file after a crash; none: records "
                 "nothing (default: ringwayd.flight in systemd's runtime directory, else in memory)")
      ->check(shell::NotEmpty());
  shell::AddTlsOptions(app, &tls);
  app.add_flag("--insecure", config.insecure, "allow addresses other than loopback, unencrypted");
  shell::AddLogOptions(app, &config.log);
  shell::AddCheckConfig(app, &only_checks);
}

// Reads the config file again for a reload; returns nothing if there is none. Refuses a path that is no regular file,
// because reading a pipe may never end.
Result<shell::ConfigValues> ReadAgain(const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return shell::ConfigValues();
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return Status(Code::kIo, "config file " + path + " is no file");
  }
  return shell::ReadConfigFile(path);
}

}  // namespace

Config ParseConfigOrExit(int argc, char** argv) {
  CommandLine line;
  shell::ParseOrExit(line.app, argc, argv);
  Config& config = line.config;
  const PlaceTexts& places = line.places;
  if (!places.advertise.empty()) config.advertise = places.advertise == "none" ? "" : places.advertise;
  if (places.flight_file != "none")
    config.flight_file = places.flight_file.empty() ? DefaultFlightFile() : places.flight_file;
  config.socket_file = OwnerOrExit(places.socket_owner);
  config.socket_file.mode = places.socket_mode.empty() ? DefaultMode() : ModeOrExit(places.socket_mode);
  if (config.memory_max == 0) config.memory_max = std::max(HalfTheRam(), kMemoryMin);
  if (config.data_threads == 0) config.data_threads = DataThreadsFor(std::thread::hardware_concurrency());
  config.users = UsersOrExit(line.users);
  const Endpoint listen = EndpointOrExit("--listen", config.listen);
  SetUpTlsOrExit(line.tls, config);
  if (config.name.empty()) config.name = DefaultName(listen);
  CheckOrExit(config, listen);
  if (line.only_checks) {
    CheckPlacesOrExit(config);
    shell::ExitChecked(kProgram);
  }
  const CLI::Option* file = line.app.get_config_ptr();
  const std::string path = file == nullptr || file->empty() ? "" : file->as<std::string>();
  const Result<shell::ConfigValues> first = ReadAgain(path);
  config.again = [argc, argv, path, first]() -> Result<Config::Again> {
    const Result<shell::ConfigValues> values = ReadAgain(path);
    if (!values.ok()) return values.status();
    CommandLine now;
    const Status status = shell::Parse(now.app, argc, argv);
    if (!status.ok()) return status;
    return Config::Again{
        .uplink_limit_mbit = now.config.uplink_limit_mbit,
        .others = first.ok() ? shell::ChangedOptions(first.value(), values.value(), kUplinkLimit) : ""};
  };
  return std::move(config);
}

}  // namespace ringway::daemon
