#include "proto/tls/tls_security.h"

#include <utility>

#include "proto/tls/tls_stream.h"

namespace ringway::tls {

std::shared_ptr<Credentials> TlsSecurity::credentials() const {
  const std::scoped_lock lock(mutex_);
  return credentials_;
}

std::unique_ptr<net::Stream> TlsSecurity::Dialled(std::unique_ptr<net::Stream> plain, const Identity& whom) {
  return std::make_unique<TlsStream>(std::move(plain), credentials(), TlsStreamOptions{.dialled = true, .whom = whom});
}

std::unique_ptr<net::Stream> TlsSecurity::Accepted(std::unique_ptr<net::Stream> plain) {
  return std::make_unique<TlsStream>(std::move(plain), credentials(), TlsStreamOptions{});
}

Status TlsSecurity::Reload(const CredentialFiles& files) {
  auto fresh = Credentials::Load(files);
  if (!fresh.ok()) return fresh.status();
  const std::scoped_lock lock(mutex_);
  if (fresh.value()->self() != credentials_->self()) {
    return {Code::kInvalidArgument, files.cert + " is the certificate of " + ToString(fresh.value()->self()) +
                                        ", and this process runs as " + ToString(credentials_->self()) +
                                        ": restart it to change who it is"};
  }
  fresh.value()->ShareRevocationsOf(*credentials_);
  credentials_ = std::move(fresh.value());
  return Status::Ok();
}

SecurityFacts FactsOf(const TlsSecurity* security, bool insecure) {
  if (security == nullptr) return {.insecure = insecure};
  const std::shared_ptr<Credentials> credentials = security->credentials();
  return {.identity = ToString(credentials->self()),
          .until = ToDate(credentials->ends()),
          .days_left = DaysUntil(credentials->ends())};
}

}  // namespace ringway::tls
