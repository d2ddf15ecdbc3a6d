// Makes the certificates of a Ringway installation: a private authority in a directory, and the certificates it signs.
//
//   DIR/ca.pem  DIR/ca.key      the authority; ca.key signs and stays where certificates are made
//   DIR/NAME.pem  DIR/NAME.key  of one process, for its host
//   DIR/issued                  a line for each certificate: its serial number and its identity (ledger.h)
//   DIR/crl.pem                 what is revoked, for all hosts, beside ca.pem
//
// ECDSA on P-256. Keys are readable by their owner only (0600). Nothing but crl.pem is ever overwritten.
//
// Errors: kInvalidArgument names the file or value and what to do; kIo what the system refused.
#pragma once

#include <chrono>
#include <string>

#include "proto/identity.h"
#include "proto/result.h"
#include "proto/tls/credentials.h"

namespace ringway::tls {

// Both times are relative to now.
struct Validity {
  std::chrono::seconds begins;
  std::chrono::seconds ends;
};

inline constexpr std::chrono::days kAuthorityDays{3650};
inline constexpr std::chrono::days kCertificateDays{365};
inline constexpr std::chrono::days kDaysMax{3650};

// Clocks of hosts may differ by this: certificates are valid from that long before they are made.
inline constexpr std::chrono::minutes kClocksDiffer{10};

Validity ValidFor(std::chrono::days days);

// The files of `name` in `dir`, as Issue makes them.
CredentialFiles FilesOf(const std::string& dir, const std::string& name);

// Creates `dir` if it does not exist.
Status InitAuthority(const std::string& dir, const Validity& validity = ValidFor(kAuthorityDays));

struct IssueDirectories {
  std::string dir;  // of the authority
  std::string out;  // where the files go; created if missing, with a copy of ca.pem if it has none
};
// Ends no later than the authority.
Status Issue(const IssueDirectories& where, const Identity& identity,
             const Validity& validity = ValidFor(kCertificateDays));

// Revokes a certificate of the authority in `dir`: that in the file `who`, or all that were issued to the name `who`.
// Returns what they are, a line each, and how many lines of DIR/issued are torn. Those that were revoked before
// stay so, also by others at the same time. A name finds no certificates of 0.9.0, which kept no DIR/issued.
Result<std::string> Revoke(const std::string& dir, const std::string& who);

// Returns a certificate as text, one line each: identity, validity, issuer, fingerprint.
Result<std::string> Describe(const std::string& file);

}  // namespace ringway::tls
