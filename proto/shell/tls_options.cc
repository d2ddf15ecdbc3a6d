#include "proto/shell/tls_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "proto/shell/options.h"

namespace ringway::shell {
namespace {

namespace fs = std::filesystem;

constexpr char kAuthority[] = "ca";

struct Candidate {
  std::string stem;
  Identity identity;
};

std::string HostName() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "";
  return host.data();
}

Status Refuse(const std::string& what) { return {Code::kInvalidArgument, what}; }

// The certificates in `dir` that have a key beside them, by name.
Result<std::vector<Candidate>> CandidatesIn(const std::string& dir) {
  std::error_code error;
  std::vector<Candidate> found;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path path = entry->path();
    const std::string stem = path.stem().string();
    if (path.extension() != ".pem" || stem == kAuthority) continue;
    std::error_code ignored;
    if (!fs::exists(fs::path(path).replace_extension(".key"), ignored)) continue;
    const std::optional<Identity> identity = tls::IdentityIn(path.string());
    if (identity) found.push_back({stem, *identity});
  }
  if (error)
    return Refuse("--tls-dir: cannot read " + dir + ": " + error.message() +
                  (error == std::errc::permission_denied ? "; run as a user who may: root, or one of the group ringway"
                                                         : "; make it with ringwayctl certs"));
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.stem < b.stem; });
  return found;
}

std::string Names(const std::vector<Candidate>& all) {
  std::string text;
  for (const Candidate& one : all) text += (text.empty() ? "" : ", ") + one.stem + ".pem";
  return text;
}

// Selects among the certificates of one role.
Result<std::string> StemOf(const std::vector<Candidate>& all, const TlsUser& user, const std::string& where) {
  for (const std::string& wanted : {user.name, user.name.empty() ? HostName() : ""}) {
    const auto named = std::find_if(
        all.begin(), all.end(), [&](const Candidate& one) { return !wanted.empty() && one.identity.name == wanted; });
    if (named != all.end()) return named->stem;
  }
  if (!user.name.empty()) {
    return Refuse("--tls-dir: " + where + " has no certificate of " + ToString(all.front().identity.role) + " " +
                  user.name + ", but of " + Names(all) + ": issue it with ringwayctl certs, or leave --name out");
  }
  if (all.size() == 1) return all.front().stem;
  return Refuse("--tls-dir: " + where + " has certificates of several (" + Names(all) +
                "): say which one is this program's with --tls-ca, --tls-cert and --tls-key");
}

}  // namespace

void AddTlsOptions(CLI::App& app, TlsOptions* options) {
  auto* dir = app.add_option("--tls-dir", options->dir,
                             "directory with ca.pem, NAME.pem and NAME.key, as ringwayctl certs makes it: encrypt "
                             "connections, and speak only to who has a certificate of that CA (default: none)")
                  ->check(NotEmpty());
  const auto add = [&](const char* name, std::string* value, const char* what) {
    app.add_option(name, *value, std::string(what) + " (default: none)")->excludes(dir)->check(NotEmpty());
  };
  add("--tls-ca", &options->ca, "the same by three files: certificate of the CA");
  add("--tls-cert", &options->cert, ".. certificate of this process");
  add("--tls-key", &options->key, ".. and its private key");
}

Result<tls::CredentialFiles> ChooseFiles(const TlsOptions& options, const TlsUser& user) {
  if (options.dir.empty()) {
    if (options.ca.empty() || options.cert.empty() || options.key.empty()) {
      return Refuse("--tls-ca, --tls-cert and --tls-key go together: give all three, or --tls-dir");
    }
    return tls::CredentialFiles{.ca = options.ca, .cert = options.cert, .key = options.key};
  }
  const Result<std::vector<Candidate>> all = CandidatesIn(options.dir);
  if (!all.ok()) return all.status();
  for (const ProcessRole role : user.roles) {
    std::vector<Candidate> fitting;
    std::copy_if(all.value().begin(), all.value().end(), std::back_inserter(fitting),
                 [role](const Candidate& one) { return one.identity.role == role; });
    if (fitting.empty()) continue;
    const Result<std::string> stem = StemOf(fitting, user, options.dir);
    if (!stem.ok()) return stem.status();
    const std::string base = options.dir + "/" + stem.value();
    return tls::CredentialFiles{
        .ca = options.dir + "/" + kAuthority + ".pem", .cert = base + ".pem", .key = base + ".key"};
  }
  const std::string role = ToString(user.roles.front());
  return Refuse("--tls-dir: " + options.dir + " has no NAME.pem and NAME.key of a process with the role " + role +
                ": ringwayctl certs issue NAME --role " + role + " --dir DIR makes them");
}

Result<TlsSetup> SetUpTls(const TlsOptions& options, const TlsUser& user, tls::CredentialFault* fault) {
  tls::CredentialFault unused = {};
  tls::CredentialFault& kind = fault != nullptr ? *fault : unused;
  kind = tls::CredentialFault::kNone;
  if (!options.given()) return TlsSetup{};
  Result<tls::CredentialFiles> files = ChooseFiles(options, user);
  kind = tls::CredentialFault::kFiles;
  if (!files.ok()) return files.status();
  auto credentials = tls::Credentials::Load(files.value(), &kind);
  if (!credentials.ok()) return credentials.status();
  const Identity& self = credentials.value()->self();
  if (std::find(user.roles.begin(), user.roles.end(), self.role) == user.roles.end()) {
    kind = tls::CredentialFault::kOtherRole;
    return Refuse(files.value().cert + " is the certificate of " + ToString(self) +
                  ": this program needs one with the role " + ToString(user.roles.front()));
  }
  if (!user.name.empty() && self.name != user.name) {
    kind = tls::CredentialFault::kOtherRole;
    return Refuse("--name " + user.name + " is not the name on " + files.value().cert + ", " + self.name +
                  ": leave --name out, or issue a certificate of that name");
  }
  return TlsSetup{.files = std::move(files.value()),
                  .security = std::make_shared<tls::TlsSecurity>(std::move(credentials.value()))};
}

}  // namespace ringway::shell
