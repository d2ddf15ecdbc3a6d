// The open dials of one peer, and what their answers mean.
//
//   Begin --> open --answers, each with the links that came up--> open --last answer--> done
//               |
//               +--Close: the pair was forgotten--> closed: its links are unwanted, only the last answer matters
//
// A new dial for the same links replaces the previous one, whose answer was lost or no longer matters.
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
  // `lanes`: how many it may open. Returns the serial that its answers carry.
  std::uint64_t Begin(const Dial& dial, std::size_t lanes);
  // Closes all dials of the pair.
  void Close(PeerId other);
  void Clear() { dials_.clear(); }

  struct Answer {
    std::size_t links = 0;  // that came up since the previous answer
    bool last = true;
    Status failure = Status::Ok();  // with the last: of a link that did not come up
  };
  struct Verdict {
    bool take = false;    // the links are wanted; else close them
    bool report = false;  // report the dial as failed because of `why`, after the links were taken
    Status why = Status::Ok();
    PeerId other;
    bool control = false;
    std::uint64_t generation = 0;
  };
  Verdict OnAnswer(std::uint64_t serial, const Answer& answer);

  // Lanes that open dials may still open.
  std::size_t lanes() const;

 private:
  struct OpenDial {
    PeerId other;
    bool control = false;
    std::uint64_t generation = 0;
    std::size_t lanes = 0;
    bool stood = false;  // at least one link came up
    bool closed = false;
  };
  std::map<std::uint64_t, OpenDial> dials_;  // by serial
  std::uint64_t next_ = 1;
};

}  // namespace ringway::links
