#include "proto/tls/revocations.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "proto/tls/pem.h"

namespace ringway::tls {
namespace {

constexpr std::size_t kBytesMax = std::size_t{4} << 20;  // 50 bytes a certificate

}  // namespace

std::string RevocationsBeside(const std::string& ca) {
  return std::filesystem::path(ca).replace_filename("crl.pem").string();
}

Result<std::vector<RevocationList>> ReadRevocations(const std::string& path) {
  std::vector<RevocationList> lists;
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return lists;
  if (type == std::filesystem::file_type::none) {
    return Status(Code::kInvalidArgument, path + " cannot be looked for: " + error.message());
  }
  const Result<std::string> text = ReadPem(path, kBytesMax);
  if (!text.ok()) return text.status();
  const Bio bio = BioOf(text.value());
  while (X509_CRL* one = PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr)) lists.emplace_back(one);
  const bool at_end = ReadToTheEnd();
  const std::string why = TakeOpensslError();
  if (!lists.empty() && at_end) return lists;
  return Status(Code::kInvalidArgument, path + " holds no revocation list in PEM, or a torn one: " + why +
                                            "; restore it, or copy it anew from where ringwayctl certs revoke made it");
}

bool IsSignedBy(X509_CRL* list, X509* authority) {
  EVP_PKEY* const key = X509_get0_pubkey(authority);
  const bool is_signed = X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
                         key != nullptr && X509_CRL_verify(list, key) == 1;
  ERR_clear_error();
  return is_signed;
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
