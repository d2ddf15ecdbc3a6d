#include "proto/tls/credentials.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/tls/pem.h"

namespace ringway::tls {
namespace {

using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

constexpr long kReadAheadBytes = 64 * 1024;
constexpr long kChainBytesMax = 16 * 1024;
constexpr long kSessionSeconds = 3600;
constexpr int kChainDepthMax = 2;
// Where the processor has AES, the first is the fastest.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr char kSessionContext[] = "ringway";

namespace fs = std::filesystem;

// The kernel follows as many symbolic links in a path.
constexpr int kLinksMax = 40;

Status Refuse(const std::string& file, const std::string& what) { return {Code::kInvalidArgument, file + " " + what}; }

// Returns all certificates of a file, one at least.
Result<std::vector<Certificate>> ReadCertificates(const std::string& path) {
  const Result<std::string> text = ReadPem(path);
  if (!text.ok()) return text.status();
  const Bio bio = BioOf(text.value());
  std::vector<Certificate> certificates;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) certificates.emplace_back(one);
  const bool at_end = ReadToTheEnd();
  const std::string why = TakeOpensslError();
  if (certificates.empty() || !at_end) return Refuse(path, "holds no certificate in PEM, or a torn one: " + why);
  return certificates;
}

// Never asks for a passphrase.
int NoPassphrase(char*, int, int, void*) { return 0; }

bool IsExposed(const std::string& key_path) {
  struct stat facts {};
  return ::stat(key_path.c_str(), &facts) == 0 && (facts.st_mode & (S_IROTH | S_IWOTH)) != 0;
}

bool IsOpenToAll(const fs::path& path) {
  struct stat facts {};
  // In a sticky directory only owners replace files. A link's own mode is not used.
  return ::lstat(path.c_str(), &facts) == 0 && !S_ISLNK(facts.st_mode) && (facts.st_mode & S_IWOTH) != 0 &&
         (facts.st_mode & S_ISVTX) == 0;
}

// Returns a path through which every user of the host may replace the file at `path`: the file itself, a directory
// above it, or one that symbolic links pass on the way to it. Returns "" if there is none.
std::string Replaceable(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  std::deque<fs::path> left(whole.begin(), whole.end());
  fs::path walked;  // without links
  for (int links = 0; !left.empty() && links <= kLinksMax;) {
    const fs::path name = std::move(left.front());
    left.pop_front();
    if (name.empty() || name == ".") continue;  // in `walked`, ".." would remove it
    if (name == "..") {
      walked = walked.parent_path();
      continue;
    }
    const fs::path here = walked / name;
    if (IsOpenToAll(here)) return here.string();
    const fs::path target = fs::read_symlink(here, error);
    if (error) {
      walked = here;
    } else {
      ++links;
      left.insert(left.begin(), target.begin(), target.end());
    }
  }
  return "";
}

Status RefuseReplaceable(const std::string& path) {
  return Refuse(path, "can be written to by every user of this host, who could be anybody then: chmod o-w it");
}

Result<Key> ReadKey(const std::string& path) {
  const Result<std::string> text = ReadPem(path);
  if (!text.ok()) return text.status();
  Key key(PEM_read_bio_PrivateKey(BioOf(text.value()).get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return Refuse(path, "holds no private key without passphrase in PEM: " + TakeOpensslError());
  return key;
}

int OnNewSession(SSL* ssl, SSL_SESSION* session) {
  auto* credentials = static_cast<Credentials*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const auto* whom = static_cast<const std::string*>(SSL_get_app_data(ssl));
  if (whom == nullptr) return 0;
  credentials->Keep(*whom, session);
  return 1;
}

// Cheap ones only: the others cost whoever accepts a hundred milliseconds, before the other side has proven anything.
constexpr char kGroups[] = "X25519:P-256";

Status SetUp(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  if (SSL_CTX_set_ciphersuites(context, kCiphers) != 1 || SSL_CTX_set1_groups_list(context, kGroups) != 1) {
    return {Code::kInternal, "OpenSSL: " + TakeOpensslError()};
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(context, kChainDepthMax);
  SSL_CTX_set_max_cert_list(context, kChainBytesMax);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // Frames have lengths: an end without notice cuts none short unnoticed.
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  SSL_CTX_set_timeout(context, kSessionSeconds);
  return Status::Ok();
}

}  // namespace

std::optional<Identity> IdentityOf(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<Identity> found;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<std::size_t>(ASN1_STRING_length(uri)));
    const std::optional<Identity> identity = ParseIdentityUri(text);
    if (!identity) continue;
    if (found) return std::nullopt;
    found = identity;
  }
  return found;
}

std::optional<Identity> IdentityIn(const std::string& path) {
  const Result<std::vector<Certificate>> certificates = ReadCertificates(path);
  return certificates.ok() ? IdentityOf(certificates.value().front().get()) : std::nullopt;
}

bool IsCurrent(X509* certificate) {
  return X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
         X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

std::string ToDate(const ASN1_TIME* time) {
  std::tm calendar{};
  if (ASN1_TIME_to_tm(time, &calendar) != 1) return "an unknown day";
  std::array<char, 16> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%d", &calendar);
  return text.data();
}

std::chrono::seconds TimeUntil(const ASN1_TIME* time) {
  int days = 0;
  int seconds = 0;  // of the same sign
  if (ASN1_TIME_diff(&days, &seconds, nullptr, time) != 1) return {};
  return std::chrono::days(days) + std::chrono::seconds(seconds);
}

std::int64_t DaysUntil(const ASN1_TIME* time) { return std::chrono::floor<std::chrono::days>(TimeUntil(time)).count(); }

Credentials::Credentials()
    : dialling_(SSL_CTX_new(TLS_client_method())), accepting_(SSL_CTX_new(TLS_server_method())) {}

Credentials::~Credentials() = default;

Result<std::shared_ptr<Credentials>> Credentials::Load(const CredentialFiles& files, CredentialFault* fault) {
  std::shared_ptr<Credentials> credentials(new Credentials);
  Status status = credentials->Read(files);
  if (fault != nullptr) *fault = status.ok() ? CredentialFault::kNone : credentials->fault_;
  if (!status.ok()) return status;
  return credentials;
}

// The files are read once: both contexts are to have the same.
Status Credentials::Read(const CredentialFiles& files) {
  for (const std::string& file : {files.ca, files.cert, files.key, RevocationsBeside(files.ca)}) {
    const std::string loose = Replaceable(file);
    if (loose.empty()) continue;
    fault_ = CredentialFault::kReplaceable;
    return RefuseReplaceable(loose);
  }
  Result<std::vector<Certificate>> authorities = ReadCertificates(files.ca);
  if (!authorities.ok()) return authorities.status();
  authorities_ = std::move(authorities.value());
  const Result<std::vector<Certificate>> certificates = ReadCertificates(files.cert);
  if (!certificates.ok()) return certificates.status();
  if (IsExposed(files.key)) {
    fault_ = CredentialFault::kKeyExposed;
    return Refuse(files.key, "is a private key that every user of this host can read: chmod o= it");
  }
  const Result<Key> key = ReadKey(files.key);
  if (!key.ok()) return key.status();
  for (SSL_CTX* context : {dialling_.get(), accepting_.get()}) {
    if (context == nullptr) return {Code::kResourceExhausted, "OpenSSL: " + TakeOpensslError()};
    if (Status status = SetUp(context); !status.ok()) return status;
    for (const Certificate& authority : authorities_) {
      if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
          SSL_CTX_add_client_CA(context, authority.get()) != 1) {
        return Refuse(files.ca, "cannot be used: " + TakeOpensslError());
      }
    }
    if (SSL_CTX_use_certificate(context, certificates.value().front().get()) != 1) {
      return Refuse(files.cert, "cannot be used: " + TakeOpensslError());
    }
    if (SSL_CTX_use_PrivateKey(context, key.value().get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
      ERR_clear_error();
      fault_ = CredentialFault::kKeyOfAnother;
      return Refuse(files.key, "is not the key of " + files.cert);
    }
  }
  SetUpSessions();
  Result<std::vector<RevocationList>> lists = ListsBeside(files.ca);
  if (!lists.ok()) return lists.status();
  revocations_ = std::make_shared<Revocations>(std::move(lists.value()));
  return CheckCertificate(files);
}

// No file: nothing is revoked.
Result<std::vector<RevocationList>> Credentials::ListsBeside(const std::string& ca) const {
  const std::string path = RevocationsBeside(ca);
  Result<std::vector<RevocationList>> lists = ReadRevocations(path);
  if (!lists.ok()) return lists.status();
  for (const RevocationList& list : lists.value()) {
    const bool is_signed = std::any_of(authorities_.begin(), authorities_.end(), [&](const Certificate& authority) {
      return IsSignedBy(list.get(), authority.get());
    });
    if (!is_signed) return Refuse(path, "is not signed by an authority of ca.pem beside it");
  }
  return lists;
}

Result<std::size_t> Credentials::TakeRevocations(const std::string& ca) const {
  if (const std::string loose = Replaceable(RevocationsBeside(ca)); !loose.empty()) return RefuseReplaceable(loose);
  Result<std::vector<RevocationList>> lists = ListsBeside(ca);
  if (!lists.ok()) return lists.status();
  const std::size_t taken = lists.value().size();
  if (taken == 0) return taken;
  Revocations fresh(std::move(lists.value()));
  revocations_->TakeFrom(fresh);
  return taken;
}

void Credentials::ShareRevocationsOf(const Credentials& before) {
  before.revocations_->TakeFrom(*revocations_);
  revocations_ = before.revocations_;
}

void Credentials::SetUpSessions() {
  SSL_CTX_set_app_data(dialling_.get(), this);
  SSL_CTX_set_session_cache_mode(dialling_.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(dialling_.get(), OnNewSession);
  // Tickets hold what a resumption needs: nothing is kept here, and other credentials do not know them.
  SSL_CTX_set_session_cache_mode(accepting_.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(accepting_.get(), 1);
  SSL_CTX_set_session_id_context(accepting_.get(), reinterpret_cast<const unsigned char*>(kSessionContext),
                                 sizeof kSessionContext - 1);
}

Status Credentials::CheckCertificate(const CredentialFiles& files) {
  X509* certificate = SSL_CTX_get0_certificate(accepting_.get());
  const std::optional<Identity> self = IdentityOf(certificate);
  if (!self) {
    fault_ = CredentialFault::kNoIdentity;
    return Refuse(files.cert, "names no identity of the form ringway://ROLE/NAME: issue one with ringwayctl certs");
  }
  self_ = *self;
  const std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  if (check == nullptr ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(accepting_.get()), certificate, nullptr) != 1) {
    return {Code::kResourceExhausted, "OpenSSL: " + TakeOpensslError()};
  }
  if (X509_verify_cert(check.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(check.get());
    ERR_clear_error();
    const std::string whole =
        std::string("is not accepted with ") + files.ca + ": " + X509_verify_cert_error_string(error);
    switch (error) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        fault_ = CredentialFault::kExpired;
        return Refuse(files.cert,
                      "(or its CA) ended on " + ToDate(X509_get0_notAfter(certificate)) + ": issue a new one");
      case X509_V_ERR_CERT_NOT_YET_VALID:
        fault_ = CredentialFault::kNotYetValid;
        return Refuse(files.cert,
                      "begins on " + ToDate(X509_get0_notBefore(certificate)) + ": look at this host's clock");
      default:
        fault_ = CredentialFault::kAuthority;
        return Refuse(files.cert, whole + "; issue it with the CA that the others have");
    }
  }
  if (revocations_->Has(certificate)) {
    fault_ = CredentialFault::kRevoked;
    return Refuse(files.cert, "is revoked by " + RevocationsBeside(files.ca) + ": issue a new one");
  }
  const ASN1_TIME* first = X509_get0_notAfter(certificate);
  const STACK_OF(X509)* chain = X509_STORE_CTX_get0_chain(check.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    const ASN1_TIME* end = X509_get0_notAfter(sk_X509_value(chain, i));
    if (ASN1_TIME_compare(end, first) < 0) first = end;
  }
  ends_.reset(ASN1_STRING_dup(first));
  if (ends_ == nullptr) return {Code::kResourceExhausted, "OpenSSL has no memory for a certificate"};
  return Status::Ok();
}

SSL_SESSION* Credentials::Session(const std::string& whom) const {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(whom);
  if (found == sessions_.end()) return nullptr;
  SSL_SESSION_up_ref(found->second.get());
  return found->second.get();
}

void Credentials::Keep(const std::string& whom, SSL_SESSION* session) {
  KeptSession kept(session);
  const std::scoped_lock lock(mutex_);
  if (sessions_.size() >= kSessionsMax && !sessions_.contains(whom)) sessions_.erase(sessions_.begin());
  sessions_.insert_or_assign(whom, std::move(kept));
}

}  // namespace ringway::tls
