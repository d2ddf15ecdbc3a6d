// Talks to systemd, without its library, or to a terminal: readiness (Type=notify), signs of life (WatchdogSec),
// sockets that systemd opened (socket activation). Calls do nothing where systemd did not start this process. Threads:
// any, but TakeSockets before there are several.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <vector>

#include "proto/clock.h"
#include "proto/stream/timer.h"
#include "proto/stream/unique_fd.h"

namespace ringway::shell {

// Each sends a datagram to $NOTIFY_SOCKET. Returns whether it could; where not, systemd's own time limits notice.
bool NotifyReady();
bool NotifyStopping();
bool NotifyAlive();

// After so long without a sign of life the process is killed; 0: nobody waits for any.
Duration WatchdogTime();

// Asks `beat` for a sign of life several times in the watchdog's time, from the loop; `beat` calls NotifyAlive when all
// that should run has run. Does nothing where nobody waits.
class Heart {
 public:
  Heart(asio::io_context& loop, std::function<void()> beat);
  void Start();

 private:
  const Duration pause_;
  const std::function<void()> beat_;
  net::Timer timer_;
};

// Returns whether SIGHUP says that the terminal is going from which this process was started, and not that something is
// to be read again: it has a terminal.
bool HasTerminal();

// The sockets that it has opened for this process, in its order: at most once.
std::vector<net::UniqueFd> TakeSockets();

}  // namespace ringway::shell
