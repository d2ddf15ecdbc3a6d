// A program on a pseudo terminal, as a person has it: what it shows, keys, and how it leaves the terminal.
//
// Threads: one. The program dies with this.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "proto/stream/unique_fd.h"

namespace ringway::e2e {

class Terminal {
 public:
  // It has 30 lines of 160 columns.
  explicit Terminal(const std::vector<std::string>& argv);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Waits until the output has `text` in what came since the last key or the start; false: it does not come.
  [[nodiscard]] bool Shows(const std::string& text);
  void Press(const std::string& keys);
  void Signal(int signal) const;
  // All that it has written.
  const std::string& output() const { return output_; }
  // Its exit code; nothing if it does not end.
  std::optional<int> Wait();
  // Returns whether keys are echoed and lines are edited, as a shell leaves it.
  bool IsAsBefore() const;

 private:
  void Read();

  net::UniqueFd here_, there_;  // both ends, so that the settings outlive the program
  pid_t pid_ = -1;
  std::string output_;
  std::size_t seen_ = 0;
};

}  // namespace ringway::e2e
