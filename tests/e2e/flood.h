// Everybody at the master's port at once: a thousand connections that say nonsense, half a hello, or nothing, and
// clients that ask for status and plans without end and take no answers.
//
// Threads: its own, from construction to the end of the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <thread>

#include "tests/e2e/intruder.h"

namespace ringway::e2e {

class Flood {
 public:
  static constexpr std::size_t kAtOnce = 1000;

  // "HOST:PORT", numeric. `group`: whose plan is asked for.
  Flood(std::string address, std::string group);
  ~Flood();
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // Connections that it has opened so far.
  std::size_t opened() const { return opened_; }

 private:
  void Run();
  // Returns what the number-th connection says first.
  std::string Words(std::size_t number) const;

  const std::string address_, group_;
  std::deque<Intruder> open_;
  std::atomic<std::size_t> opened_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace ringway::e2e
