// The dials of one peer that are under way, and what their answers mean.
//
//   Begin --> open --answers, each with links that stand--> .. --the last one--> over
//               |
//               +--Close: the pair was given up meanwhile--> closed: its links are unwanted; only the last answer
//               counts
//
// A new dial for the same links takes the place of the one before, whose answer was lost, or is of no interest any
// more.
//
// Pure. Bounded: one dial for the control link and one for lanes a pair.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "daemon/links/link.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::links {

class DialTracker {
 public:
  // `lanes`: how many may come of it. The serial that its answers carry.
  std::uint64_t Begin(const Dial& dial, std::size_t lanes);
  // All dials of the pair.
  void Close(PeerId other);
  void Clear() { dials_.clear(); }

  struct Answer {
    std::size_t links = 0;  // that stand, and did not before
    bool last = true;
    Status failure = Status::Ok();  // with the last: of one that does not stand
  };
  struct Verdict {
    bool take = false;    // the links are wanted, else close them
    bool report = false;  // that the dial failed, for `why`: after the links were taken
    Status why = Status::Ok();
    PeerId other;
    bool control = false;
    std::uint64_t generation = 0;
  };
  Verdict OnAnswer(std::uint64_t serial, const Answer& answer);

  // That may still come.
  std::size_t lanes() const;

 private:
  struct OpenDial {
    PeerId other;
    bool control = false;
    std::uint64_t generation = 0;
    std::size_t lanes = 0;
    bool stood = false;  // a link of it did
    bool closed = false;
  };
  std::map<std::uint64_t, OpenDial> dials_;  // by serial
  std::uint64_t next_ = 1;
};

}  // namespace ringway::links
