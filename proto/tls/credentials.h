// The credentials of a process: a certificate, its private key, and the certificates of the authorities that it trusts
// (several while a new one replaces the old). Read from PEM files, checked, immutable: a reload makes another object.
//
// A certificate carries exactly one identity, as the URI "ringway://ROLE/NAME" among its subject alternative names
// (proto/identity.h). TLS 1.3 only.
//
// Threads: any. Lifetime: shared; connections keep the credentials that they were made with.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "proto/identity.h"
#include "proto/result.h"
#include "proto/tls/freer.h"
#include "proto/tls/revocations.h"

namespace ringway::tls {

struct CredentialFiles {
  std::string ca;
  std::string cert;
  std::string key;

  bool operator==(const CredentialFiles&) const = default;
};

// The reason of a refusal, for callers that know a remedy for each.
enum class CredentialFault : std::uint8_t {
  kNone,
  kFiles,         // missing, unreadable, or no PEM
  kKeyExposed,    // every user of the host can read the key
  kReplaceable,   // every user of the host can put another file in its place
  kKeyOfAnother,  // the key is not the certificate's
  kNoIdentity,    // not made for Ringway
  kOtherRole,     // of a process that this program is not
  kAuthority,     // the CA is not the issuer
  kRevoked,
  kExpired,
  kNotYetValid,
};

// Returns a certificate's identity; nullopt if it has none, or several.
std::optional<Identity> IdentityOf(X509* certificate);
// The same for the first certificate in a PEM file; nullopt also if there is none.
std::optional<Identity> IdentityIn(const std::string& path);
// Returns whether the certificate is valid at this moment.
bool IsCurrent(X509* certificate);
// "2027-11-26".
std::string ToDate(const ASN1_TIME* time);
// Returns the time from now until `time`; negative if that is past.
std::chrono::seconds TimeUntil(const ASN1_TIME* time);
// The same, rounded down.
std::int64_t DaysUntil(const ASN1_TIME* time);

using Certificate = std::unique_ptr<X509, Freer<X509_free>>;

class Credentials {
 public:
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  // kInvalidArgument names the file and what to do about it: it cannot be read, everybody can replace it, the key is
  // not the certificate's or is readable by everybody, the certificate is not of the authority, has no identity, is
  // revoked, or is not valid now. `fault`, if not null, gets the kind of the refusal.
  static Result<std::shared_ptr<Credentials>> Load(const CredentialFiles& files, CredentialFault* fault = nullptr);

  const Identity& self() const { return self_; }
  // When the first of the certificate and its authority's ends.
  const ASN1_TIME* ends() const { return ends_.get(); }
  // What is not accepted of others; never null.
  const std::shared_ptr<Revocations>& revocations() const { return revocations_; }
  // From now on `before`, which connections made earlier have, says it for these, too, with the lists of these.
  void ShareRevocationsOf(const Credentials& before);
  // Takes the lists beside `ca` alone, if authorities of these credentials have signed them; returns how many. 0: there
  // is no file, and those before stay, as they do after an error.
  Result<std::size_t> TakeRevocations(const std::string& ca) const;

  // ---- for TlsStream
  SSL_CTX* dialling() const { return dialling_.get(); }
  SSL_CTX* accepting() const { return accepting_.get(); }
  // The session of the last connection to `whom`, which spares the next handshake its signatures; null: none. The
  // caller frees it.
  SSL_SESSION* Session(const std::string& whom) const;
  // Takes ownership of the session.
  void Keep(const std::string& whom, SSL_SESSION* session);

 private:
  using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
  using KeptSession = std::unique_ptr<SSL_SESSION, Freer<SSL_SESSION_free>>;
  static constexpr std::size_t kSessionsMax = 4096;

  Credentials();
  Status Read(const CredentialFiles& files);
  void SetUpSessions();
  Result<std::vector<RevocationList>> ListsBeside(const std::string& ca) const;
  Status CheckCertificate(const CredentialFiles& files);

  CredentialFault fault_ = CredentialFault::kFiles;  // what a refusal while loading means
  Context dialling_;
  Context accepting_;
  std::vector<Certificate> authorities_;
  Identity self_;
  std::shared_ptr<Revocations> revocations_;
  std::unique_ptr<ASN1_TIME, Freer<ASN1_TIME_free>> ends_;
  mutable std::mutex mutex_;  // of sessions_
  std::map<std::string, KeptSession> sessions_;
};

}  // namespace ringway::tls
