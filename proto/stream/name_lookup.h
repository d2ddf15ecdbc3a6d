// Looks up the addresses of names for an event loop without blocking it, its end or the process's end: with a silent
// name server, getaddrinfo takes many seconds and cannot be interrupted.
//
// One thread of the process does all lookups, in their order; it is never joined. Without a name it sleeps.
//
// Threads: the loop's. Lifetime: the loop's, whose service it is.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/stream/address.h"

namespace ringway::net {

// Returns the text of getaddrinfo's `error`. REQUIRES: errno is unchanged, for EAI_SYSTEM.
std::string LookupErrorText(int error);

class NameLookup : public asio::execution_context::service {
 public:
  static inline asio::execution_context::id id;
  static constexpr std::size_t kWaitingMax = 1024;  // of the process

  using Done = std::function<void(Result<std::vector<SocketAddress>>)>;

  static NameLookup& Of(asio::io_context& loop) { return asio::use_service<NameLookup>(loop); }

  explicit NameLookup(asio::execution_context& loop);

  // Calls `done` once, from a later turn of the loop, unless the lookup is cancelled. Returns its number. Errors: kIo
  // with the reason, kResourceExhausted where kWaitingMax wait or no thread can be started.
  std::uint64_t Start(const Endpoint& where, Done done);
  void Cancel(std::uint64_t number);

 private:
  class Answers;

  void shutdown() override;

  const std::shared_ptr<Answers> answers_;  // lookups in progress hold it
  std::uint64_t next_ = 1;
};

}  // namespace ringway::net
