// Certificates that are valid and not accepted any more: the authority's list of them, crl.pem beside ca.pem, as
// `ringwayctl certs revoke` makes it. All connections of a process share one object, so that a list that is read anew
// ends those that stand, at their next read or write.
//
// A list has no end here: one that is old refuses those on it, as when it was new.
//
// Threads: any.
#pragma once

#include <openssl/x509.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/result.h"
#include "proto/tls/freer.h"

namespace ringway::tls {

using RevocationList = std::unique_ptr<X509_CRL, Freer<X509_CRL_free>>;

// The path of the list of the authority whose certificate is at `ca`.
std::string RevocationsBeside(const std::string& ca);

// Returns all lists of the file at `path`; none where there is no such file. kInvalidArgument: it cannot be read, holds
// no list, or a torn one. A symbolic link to nothing cannot be read.
Result<std::vector<RevocationList>> ReadRevocations(const std::string& path);

bool IsSignedBy(X509_CRL* list, X509* authority);

class Revocations {
 public:
  explicit Revocations(std::vector<RevocationList> lists) : lists_(std::move(lists)) {}
  Revocations(const Revocations&) = delete;
  Revocations& operator=(const Revocations&) = delete;

  bool Has(X509* certificate) const;
  // How many certificates are on the lists.
  std::size_t count() const;
  // Grows whenever the lists are replaced.
  std::uint64_t revision() const { return revision_.load(std::memory_order_acquire); }
  // Takes the lists of `other`, which has none then.
  void TakeFrom(Revocations& other);

 private:
  mutable std::mutex mutex_;  // of lists_
  std::vector<RevocationList> lists_;
  std::atomic<std::uint64_t> revision_ = 1;
};

}  // namespace ringway::tls
