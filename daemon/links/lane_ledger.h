// Records what was sent on the lanes of this peer's pairs, so that a lane can close without losing anything.
//
// Both ends of a lane count the frames that they have received whole. When it closes, each end reports its count on the
// control link, and the other resends what lies beyond. Positions are kept, not bytes: the source of a position that
// was not received cannot have changed, except by its trainer. So an end that closes a lane because of a frame's
// checksum says so, and the other checks its own input (buffer_watch.h).
//
//   up(generation) --closed here, or LaneClosed from the other--> down: LaneClosed(frames received) is sent
//                  --LaneClosed from the other--> settled: frames beyond its count are returned as lost
//
// Each time a lane is opened the dialler chooses a higher generation. A generation may be up at one end only: the
// dialler did not get the reply, or gave up. The end that never saw it up answers that it received none of it, whatever
// generation is up there by then. Frames of attempts that are over are dropped, not returned.
//
// Pure. Bounded: a frame is kept only while its operation's attempt is live. All frames are swept when as many were
// sent since the last sweep as were live then: so at most half of those kept are dead (and kSweepMin), at a constant
// cost a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/collective/ready_queue.h"
#include "daemon/links/link.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::links {

// A segment in flight. `attempt` is that of the operation, or of the fetch that it answers.
struct SentFrame {
  OpName op;
  std::uint64_t attempt = 0;
  collective::Ready ready;
  std::uint64_t eager_cost = 0;  // charged to the eager window when it was sent
  std::uint64_t hash = 0;        // of its payload, as its header says
};

class LaneLedger {
 public:
  using IsLive = std::function<bool(std::uint64_t attempt)>;

  // Returns false if this generation is over already: close the lane. REQUIRES: the lane is not up.
  bool Up(const LinkId& lane, std::uint64_t generation);
  bool IsUp(const LinkId& lane) const;
  // A frame was received whole, or skipped.
  void CountIn(const LinkId& lane);
  void CountOut(const LinkId& lane, const SentFrame& frame, const IsLive& is_live);

  // The next frame failed its checksum: close the lane; LaneClosed says which frame it was.
  void Refuse(const LinkId& lane);

  // The lane was closed here. Returns the message for the other end. REQUIRES: it is up.
  control::LaneClosed Down(const LinkId& lane);

  struct Settled {
    bool close = false;                         // the lane is up here: close it, call Down, then OnClosed again
    std::optional<control::LaneClosed> answer;  // this end never saw the generation up: send it
    std::vector<SentFrame> lost;
    std::optional<SentFrame> refused;  // the one of them that failed its checksum at the other end
  };
  Settled OnClosed(PeerId other, const control::LaneClosed& closed);

  void Forget(PeerId other);

  static constexpr std::size_t kSweepMin = 64;
  // Frames kept, of lanes that are up.
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
    std::uint64_t newest = 0;      // generation seen here, or named by the other end
    bool up = false;
    Traffic now;
    std::map<std::uint64_t, Traffic> unsettled;  // closed here, awaiting LaneClosed; by generation
  };

  std::map<LinkId, Lane> lanes_;
};

}  // namespace ringway::links
