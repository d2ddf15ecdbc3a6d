#include "master/shell/store_options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>

#include "master/shell/journal.h"
#include "proto/shell/log.h"
#include "proto/shell/options.h"
#include "proto/shell/places.h"
#include "proto/stream/address.h"
#ifdef RINGWAY_ETCD
#include "master/shell/etcd_store.h"
#endif

namespace ringway {
namespace {

constexpr char kNone[] = "none";
constexpr char kSqlite[] = "sqlite:";
constexpr char kEtcd[] = "etcd://";

Status Wrong(const std::string& text) { return {Code::kInvalidArgument, text}; }

// $STATE_DIRECTORY is systemd's. With port 0 there is no default journal: a restart would not find it again.
Result<std::string> DefaultJournal(std::uint16_t port) {
  if (port == 0) return std::string(kNone);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
    return std::string(value == nullptr ? "" : value);
  };
  std::string directory = variable("STATE_DIRECTORY");
  if (directory.empty() && !variable("XDG_STATE_HOME").empty()) directory = variable("XDG_STATE_HOME") + "/ringway";
  if (directory.empty() && !variable("HOME").empty()) directory = variable("HOME") + "/.local/state/ringway";
  if (directory.empty()) return Wrong("no $HOME to keep the journal in: give --journal FILE, or --journal none");
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return Wrong("cannot create " + directory + " for the journal: " + error.message() +
                 "; give --journal FILE, or --journal none");
  }
  return directory + "/master-" + std::to_string(port) + ".db";
}

// "sqlite:FILE", "etcd://...", "none", or "" for the default.
std::string StoreOf(const StoreOptions& options) {
  if (options.journal.empty()) return options.store;
  return options.journal == kNone ? kNone : kSqlite + options.journal;
}

#ifdef RINGWAY_ETCD
Result<EtcdOptions> EtcdOf(const StoreOptions& options) {
  Result<EtcdOptions> etcd = ParseEtcd(StoreOf(options));
  if (!etcd.ok()) return Wrong("--store: " + etcd.status().text());
  etcd.value().ca = options.ca;
  etcd.value().cert = options.cert;
  etcd.value().key = options.key;
  etcd.value().user = options.user;
  if (options.user.empty()) return etcd;
  std::ifstream file(options.password_file);
  if (!std::getline(file, etcd.value().password)) {
    return Wrong("--store-password-file: cannot read a line of " + options.password_file);
  }
  return etcd;
}
#endif

Status CheckEtcd(const StoreOptions& options) {
#ifdef RINGWAY_ETCD
  const Result<EtcdOptions> etcd = EtcdOf(options);
  if (!etcd.ok()) return etcd.status();
  if (!options.ca.empty() || options.insecure) return Status::Ok();
  for (const Endpoint& endpoint : etcd.value().endpoints) {
    // A name that is unknown now may become that of another host.
    const Result<net::SocketAddress> address = net::ResolveBlocking(endpoint, false);
    if (address.ok() && net::IsLoopback(address.value())) continue;
    return Wrong("--store " + ToString(endpoint) + " is not a loopback address" +
                 (address.ok() ? "" : " (" + address.status().text() + ")") +
                 ": give --store-ca, the authority of etcd's certificates, or --insecure");
  }
  return Status::Ok();
#else
  return Wrong("--store " + StoreOf(options) +
               ": this ringway-master is built without etcd, as those of wheels and images are: use the packages, or "
               "build it from the source");
#endif
}

Result<std::unique_ptr<Store>> OpenJournal(const StoreOptions& options, const std::string& path) {
  Result<std::unique_ptr<Journal>> journal = Journal::Open(path, {.start_new = options.start_new});
  if (!journal.ok()) return journal.status();
  const Journal& opened = *journal.value();
  if (opened.is_new()) {
    shell::Log(shell::Level::kInfo, "journal_new", {{"path", opened.Place()}, {"effect", "no group is known yet"}});
  }
  shell::Log(shell::Level::kInfo, "journal",
             {{"path", opened.Place()}, {"term", opened.term()}, {"groups", opened.groups()}});
  return std::unique_ptr<Store>(std::move(journal).value());
}

}  // namespace

void AddStoreOptions(CLI::App& app, StoreOptions* options) {
  CLI::Option* store =
      app.add_option(
             "--store", options->store,
             "where the groups are kept: sqlite:FILE, for one master; etcd://HOST:PORT[,HOST:PORT...][/PREFIX], "
             "for any number, of which one leads; none (default: as --journal)")
          ->check(shell::NotEmpty());
  app.add_option("--journal", options->journal,
                 "short for --store sqlite:FILE, or --store none; by default in the state directory, none for port 0")
      ->excludes(store);
  app.add_flag("--new-journal", options->start_new,
               "begin without the groups of the journal that there is, which is kept as FILE.old, or FILE.old.N if "
               "that exists; not in a file")
      ->configurable(false);  // for one start: each would forget the groups
  app.add_option("--advertise", options->advertise,
                 "HOST:PORT of this master, by which others name it when it leads (default: --listen)")
      ->check(shell::NotEmpty());
  app.add_option("--lease-s", options->lease_s,
                 "seconds after which a master that etcd does not hear leads no more, and another takes over")
      ->check(CLI::Range(1, 300))
      ->capture_default_str();
  app.add_option("--store-ca", options->ca,
                 "certificate of the CA of etcd's certificates: speak TLS with it (default: none)")
      ->check(shell::NotEmpty());
  CLI::Option* cert =
      app.add_option("--store-cert", options->cert, "certificate that etcd wants to see, and (default: none)");
  app.add_option("--store-key", options->key, "its private key (default: none)")->needs(cert);
  CLI::Option* password = app.add_option("--store-password-file", options->password_file,
                                         "file whose first line is the password of --store-user (default: none)");
  app.add_option("--store-user", options->user, "user at etcd (default: none)")->needs(password);
}

bool IsShared(const StoreOptions& options) { return StoreOf(options).starts_with(kEtcd); }

Status CheckStore(const StoreOptions& options) {
  const std::string store = StoreOf(options);
  const bool is_file = store.starts_with(kSqlite);
  if (is_file && store.size() == sizeof(kSqlite) - 1) return Wrong("--store sqlite: names no file");
  if (!is_file && !store.empty() && store != kNone && !IsShared(options)) {
    return Wrong("--store " + store + ": give sqlite:FILE, etcd://HOST:PORT or none");
  }
  if (options.start_new && IsShared(options))
    return Wrong("--new-journal is for a file; with etcd give another /PREFIX");
  if (!options.advertise.empty()) {
    const Result<Endpoint> advertise = ParseEndpointToDial(options.advertise);
    if (!advertise.ok()) return Wrong("--advertise: " + advertise.status().text());
  }
  if (IsShared(options)) return CheckEtcd(options);
  return is_file ? shell::CheckFilePlace({.option = "--journal", .path = store.substr(sizeof(kSqlite) - 1)})
                 : Status::Ok();
}

Result<std::unique_ptr<Store>> OpenStore(asio::io_context& io, const StoreOptions& options, const Listening& at) {
  std::string store = StoreOf(options);
  if (store.empty()) {
    Result<std::string> journal = DefaultJournal(at.wanted_port);
    if (!journal.ok()) return journal.status();
    store = journal.value() == kNone ? kNone : kSqlite + journal.value();
  }
  if (store == kNone) {
    shell::Log(shell::Level::kWarning, "no_journal", {{"effect", "a restarted master will not know the groups"}});
    return std::unique_ptr<Store>();
  }
  if (!IsShared(options)) return OpenJournal(options, store.substr(sizeof(kSqlite) - 1));
#ifdef RINGWAY_ETCD
  const Result<EtcdOptions> etcd = EtcdOf(options);
  if (!etcd.ok()) return etcd.status();
  std::random_device random;
  ElectionOptions election;
  election.address = options.advertise.empty() ? at.address : options.advertise;
  election.seed = (static_cast<std::uint64_t>(random()) << 32) | random();
  election.lease_s = options.lease_s;
  election.answer_within = std::chrono::seconds(options.lease_s) / 2;
  auto opened = std::make_unique<EtcdStore>(io, etcd.value(), election);
  shell::Log(shell::Level::kInfo, "store", {{"place", opened->Place()}, {"address", election.address}});
  return std::unique_ptr<Store>(std::move(opened));
#else
  (void)io;
  return CheckEtcd(options);
#endif
}

}  // namespace ringway
