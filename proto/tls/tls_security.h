// Mutual TLS as the security of connections (proto/stream/security.h), with credentials that can be replaced while
// connections run: those made from then on use the new ones; a new list of what is revoked is that of all.
//
// Threads: any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "proto/stream/security.h"
#include "proto/tls/credentials.h"

namespace ringway::tls {

class TlsSecurity final : public net::Security {
 public:
  explicit TlsSecurity(std::shared_ptr<Credentials> credentials) : credentials_(std::move(credentials)) {}

  std::unique_ptr<net::Stream> Dialled(std::unique_ptr<net::Stream> plain, const Identity& whom) override;
  std::unique_ptr<net::Stream> Accepted(std::unique_ptr<net::Stream> plain) override;

  std::shared_ptr<Credentials> credentials() const;
  // Rereads the files. If they are unusable, or name another identity, the old credentials stay, but a list of what is
  // revoked is taken all the same if the old credentials' authorities have signed it. Connections that stand end where
  // what they have at the other end is revoked now.
  Status Reload(const CredentialFiles& files);

 private:
  mutable std::mutex mutex_;  // of credentials_
  std::shared_ptr<Credentials> credentials_;
};

// `security`: null where there is none.
SecurityFacts FactsOf(const TlsSecurity* security, bool insecure);

}  // namespace ringway::tls
