#include "master/shell/store_options.h"

#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "master/leadership/election.h"
#include "master/shell/journal.h"
#include "proto/shell/log.h"
#include "proto/shell/options.h"
#include "proto/shell/places.h"
#include "proto/shell/toml_text.h"
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
// Reads a file that an option names.
Result<std::string> ReadOf(const char* option, const std::string& path) {
  constexpr std::size_t kBytesMax = 1 << 20;  // a bundle of authorities has a quarter of it
  Result<std::string> text = shell::ReadTextFile(path, kBytesMax);
  return text.ok() ? text : Wrong(std::string(option) + ": " + text.status().text());
}

Result<EtcdOptions> EtcdOf(const StoreOptions& options) {
  Result<EtcdOptions> etcd = ParseEtcd(StoreOf(options));
  if (!etcd.ok()) return Wrong("--store: " + etcd.status().text());
  for (const auto& [option, path] : {std::pair("--store-ca", options.ca), std::pair("--store-cert", options.cert),
                                     std::pair("--store-key", options.key)}) {
    if (path.empty()) continue;
    if (const Result<std::string> text = ReadOf(option, path); !text.ok()) return text.status();
  }
  etcd.value().ca = options.ca;
  etcd.value().cert = options.cert;
  etcd.value().key = options.key;
  etcd.value().user = options.user;
  if (options.user.empty()) return etcd;
  constexpr char kPasswordFile[] = "--store-password-file";
  const Result<std::string> text = ReadOf(kPasswordFile, options.password_file);
  if (!text.ok()) return text.status();
  if (text.value().empty()) return Wrong(std::string(kPasswordFile) + ": " + options.password_file + " has no line");
  etcd.value().password = text.value().substr(0, text.value().find('\n'));
  return etcd;
}
#endif

// Options that a store without etcd would ignore.
Status CheckNothingOfEtcd(const StoreOptions& options) {
  const std::pair<const char*, bool> given[] = {{"--advertise", !options.advertise.empty()},
                                                {"--lease-s", options.lease_s.has_value()},
                                                {"--store-ca", !options.ca.empty()},
                                                {"--store-cert", !options.cert.empty()},
                                                {"--store-user", !options.user.empty()}};
  for (const auto& [option, is_given] : given) {
    if (is_given)
      return Wrong(std::string(option) + " is for masters that share an etcd: give --store etcd://, or leave it out");
  }
  return Status::Ok();
}

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
      ->default_str(std::to_string(ElectionOptions().lease_s));
  app.add_option("--store-ca", options->ca,
                 "certificate of the CA of etcd's certificates: speak TLS with it (default: none)")
      ->check(shell::NotEmpty());
  CLI::Option* cert =
      app.add_option("--store-cert", options->cert, "certificate that etcd wants to see, and (default: none)")
          ->check(shell::NotEmpty());
  CLI::Option* key =
      app.add_option("--store-key", options->key, "its private key (default: none)")->check(shell::NotEmpty());
  CLI::Option* password = app.add_option("--store-password-file", options->password_file,
                                         "file whose first line is the password of --store-user (default: none)")
                              ->check(shell::NotEmpty());
  CLI::Option* user =
      app.add_option("--store-user", options->user, "user at etcd (default: none)")->check(shell::NotEmpty());
  for (const auto& [one, other] : {std::pair(cert, key), std::pair(user, password)}) {
    one->needs(other);
    other->needs(one);
  }
}

bool IsShared(const StoreOptions& options) { return StoreOf(options).starts_with(kEtcd); }

Status CheckStore(const StoreOptions& options) {
  const std::string store = StoreOf(options);
  const bool is_file = store.starts_with(kSqlite);
  if (is_file && store.size() == sizeof(kSqlite) - 1) return Wrong("--store sqlite: names no file");
  if (!is_file && !store.empty() && store != kNone && !IsShared(options)) {
    return Wrong("--store " + store + ": give sqlite:FILE, etcd://HOST:PORT or none");
  }
  if (!IsShared(options)) {
    if (Status status = CheckNothingOfEtcd(options); !status.ok()) return status;
  } else if (options.start_new) {
    return Wrong("--new-journal is for a file; with etcd give another /PREFIX");
  }
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
  election.lease_s = options.lease_s.value_or(election.lease_s);
  auto opened = std::make_unique<EtcdStore>(io, etcd.value(), election);
  shell::Log(shell::Level::kInfo, "store", {{"place", opened->Place()}, {"address", election.address}});
  return std::unique_ptr<Store>(std::move(opened));
#else
  (void)io;
  return CheckEtcd(options);
#endif
}

}  // namespace ringway
