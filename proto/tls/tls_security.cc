#include "proto/tls/tls_security.h"

#include <utility>

#include "proto/tls/tls_stream.h"

namespace ringway::tls {
namespace {

// Takes the list alone. Returns `failure`, and what became of the list.
Status WithRevocations(const Status& failure, const Credentials& current, const CredentialFiles& files) {
  const Result<std::size_t> lists = current.TakeRevocations(files.ca);
  std::string what;
  if (lists.ok() && lists.value() > 0) what = "; but " + RevocationsBeside(files.ca) + " is in use from now on";
  if (!lists.ok() && lists.status().text() != failure.text()) what = "; and " + lists.status().text();
  return {failure.code(), failure.text() + what};
}

}  // namespace

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
  const std::shared_ptr<Credentials> current = credentials();
  if (!fresh.ok()) return WithRevocations(fresh.status(), *current, files);
  if (fresh.value()->self() != current->self()) {
    const Status other(Code::kInvalidArgument, files.cert + " is the certificate of " +
                                                   ToString(fresh.value()->self()) + ", and this process runs as " +
                                                   ToString(current->self()) + ": restart it to change who it is");
    return WithRevocations(other, *current, files);
  }
  const std::scoped_lock lock(mutex_);
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
