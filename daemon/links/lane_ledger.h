// What travels on the lanes of this peer's pairs, so that a lane can close without losing anything.
//
// A lane's two ends count the frames that they have taken whole. When a lane closes, each end tells the other how many,
// on the control link, and sends again what the other did not take: positions are kept, not bytes, because the source
// of a position that was not taken cannot have changed, but by its trainer: so an end that closes a lane because of a
// frame's checksum says so, and the other judges its own memory (buffer_watch.h).
//
//   up(generation) --closed here, or LaneClosed from the other--> down: LaneClosed(frames taken) goes out
//                  --LaneClosed from the other--> settled: frames beyond its count are lost, and come back as a list
//
// Every time a lane is opened it has a higher generation, chosen by who dials. A generation may be up at one end alone:
// then who dialled it has not got the reply, or has given it up. The end that never saw it up answers that it took none
// of it, whatever is up there by then. Frames of attempts that are over are forgotten without being told.
//
// Pure. Bounded: a frame is kept only while its operation's attempt lives. Frames that are over are swept, wherever
// they stand, when as many have been sent since the last sweep as were live then: at most half of what is kept is over
// (and kSweepMin), at a constant cost a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/collective/executor.h"
#include "daemon/links/link.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::links {

// A segment on its way. `attempt` is of the operation, or of the fetch that it serves.
struct SentFrame {
  OpName op;
  std::uint64_t attempt = 0;
  collective::Executor::Ready ready;
  std::uint64_t eager_cost = 0;  // charged to the eager window when it was sent
  std::uint64_t hash = 0;        // of its payload, as its header says
};

class LaneLedger {
 public:
  using IsLive = std::function<bool(std::uint64_t attempt)>;

  // Gives false if this generation is over already: close the lane. REQUIRES: the lane is not up.
  bool Up(const LinkId& lane, std::uint64_t generation);
  bool IsUp(const LinkId& lane) const;
  // A frame was taken whole, or skipped.
  void CountIn(const LinkId& lane);
  void CountOut(const LinkId& lane, const SentFrame& frame, const IsLive& is_live);

  // What comes next on it failed its checksum: the lane is to be closed, and the other end told which frame it was.
  void Refuse(const LinkId& lane);

  // The lane is closed here. What to tell the other end. REQUIRES: it is up.
  control::LaneClosed Down(const LinkId& lane);

  struct Settled {
    bool close = false;                         // the lane is up here: close it, call Down, then this again
    std::optional<control::LaneClosed> answer;  // this end never saw the generation up
    std::vector<SentFrame> lost;
    std::optional<SentFrame> refused;  // one of them: it failed its checksum there
  };
  Settled OnClosed(PeerId other, const control::LaneClosed& closed);

  void Forget(PeerId other);

  static constexpr std::size_t kSweepMin = 64;
  // Frames that are kept, of lanes that are up.
  std::size_t KeptFrames() const;

 private:
  struct NumberedFrame {
    std::uint64_t number = 0;  // among the frames sent on this generation, from 0
    SentFrame frame;
  };
  struct Traffic {
    std::uint64_t frames_in = 0;
    std::uint64_t frames_out = 0;
    bool refused = false;
    std::vector<NumberedFrame> sent;  // ascending
    std::size_t sweep_at = kSweepMin;
  };
  struct Lane {
    std::uint64_t generation = 0;  // of `now`
    std::uint64_t newest = 0;      // seen or spoken of
    bool up = false;
    Traffic now;
    std::map<std::uint64_t, Traffic> unsettled;  // closed here, by generation
  };

  std::map<LinkId, Lane> lanes_;
};

}  // namespace ringway::links
