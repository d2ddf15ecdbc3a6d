#include "proto/tls/revocations.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace ringway::tls {

std::string RevocationsBeside(const std::string& ca) {
  return std::filesystem::path(ca).replace_filename("crl.pem").string();
}

bool Revocations::Has(X509* certificate) const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(lists_.begin(), lists_.end(), [&](const RevocationList& list) {
    X509_REVOKED* entry = nullptr;
    return X509_NAME_cmp(X509_CRL_get_issuer(list.get()), X509_get_issuer_name(certificate)) == 0 &&
           X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1;
  });
}

std::size_t Revocations::count() const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const RevocationList& list : lists_) {
    count += static_cast<std::size_t>(std::max(0, sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list.get()))));
  }
  return count;
}

void Revocations::TakeFrom(Revocations& other) {
  std::vector<RevocationList> lists;
  {
    const std::scoped_lock lock(other.mutex_);
    lists = std::exchange(other.lists_, {});
  }
  const std::scoped_lock lock(mutex_);
  lists_ = std::move(lists);
  revision_.fetch_add(1, std::memory_order_release);
}

}  // namespace ringway::tls
