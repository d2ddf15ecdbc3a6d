// Keeps a running program's certificates current: on SIGHUP the files are read again, for connections made from then
// on; those that stand go on. Says in the log who the program is, until when, how many certificates are revoked, and
// what became of a reload; warns if fewer are revoked than before. From kWarnDays before the end it warns every day,
// and says when it has come.
//
// Threads: the loop's. Lifetime: that of the loop's run.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include "proto/shell/tls_options.h"
#include "proto/stream/timer.h"

namespace ringway::shell {

class TlsKeeper {
 public:
  static constexpr std::chrono::days kWarnDays{30};

  // REQUIRES: setup.security != nullptr.
  TlsKeeper(asio::io_context& loop, TlsSetup setup);
  TlsKeeper(const TlsKeeper&) = delete;
  TlsKeeper& operator=(const TlsKeeper&) = delete;

  void Start();
  void Reload();

 private:
  void Arm();
  void Say(const std::string& event) const;
  std::size_t Revoked() const;  // how many certificates are
  void Watch();

  TlsSetup setup_;
  asio::signal_set hang_up_;
  net::Timer daily_;
};

}  // namespace ringway::shell
