// One lane: a connection (stream.h) that carries segments, each a header (proto/segment_header.h) and its payload. The
// owner's interface, whichever thread moves the bytes:
//
//   StreamLane     on the owner's own event loop
//   ThreadedLane   on a lane thread; only whole segments reach the owner
//   InProcessLane  to a peer of the same daemon: no connection (in_process_lane.h)
//
// Sending: one segment at a time, when idle(). Nothing is queued here.
//
// A lane belongs to one pair of peers; its connection may outlive it, for a new one takes seconds to become as fast:
//
//   Start --> [ segments ] --Retire--> the segment being sent, then a kEnd frame --+--> released, when both sides' kEnd
//                |                                                                 |    frames have passed (within
//                +--kEnd from the other side--> OnLaneClosed --Retire--------------+    kRetireMax; else closed)
//                +--Close, a failure--> closed
//
// While it retires, what arrives before the other side's kEnd is skipped. What follows it is the next user's.
//
// Threads: the owner's (data thread), for every call and for every call of the sink. Lifetime: shared; the sink must
// live until OnLaneClosed or Close. Any failure closes the lane: a byte stream out of sync cannot be repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/links/frames.h"
#include "daemon/links/link.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"
#include "proto/stream/stream.h"

namespace ringway::net {

// `self`: the peer of this daemon whose lane it is; its receive buffers are charged to it.
struct LaneLabel {
  links::LinkId link;
  PeerId self = {};
};

// The sink may close any lane, the calling one too, from within its calls.
class LaneSink {
 public:
  virtual ~LaneSink() = default;
  virtual Result<links::Inbound> OnLaneHeader(const links::LinkId& lane, const SegmentHeader& header) = 0;
  // `hash`: Hash64 of the payload, computed on the thread that read it.
  virtual Status OnLanePayload(const links::LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) = 0;
  virtual bool IsAttemptLive(std::uint64_t attempt) = 0;
  // A segment that had to wait for room is written: the lane is idle.
  virtual void OnLaneIdle() = 0;
  // Called once, posted, never from within a call of the lane. The sink may retire it within this call: if it has not
  // failed, but the other side has retired it, its connection goes on.
  virtual void OnLaneClosed(const links::LinkId& lane, const std::string& why) = 0;
};

class Lane {
 public:
  // `send_payload_bytes_max`: of any segment to be sent; the size of codec_scratch.
  Lane(LaneLabel label, std::uint32_t send_payload_bytes_max);
  virtual ~Lane() = default;

  // Takes a detached stream. Call once.
  virtual void Start(std::unique_ptr<Stream> stream, LaneSink* sink) = 0;
  virtual void Close() = 0;
  // Takes the connection, detached; null: it has failed. Called at most once, on any thread, never from within Retire.
  using Keep = std::function<void(std::unique_ptr<Stream>)>;
  // Ends the lane: the sink is not called any more. Call once, at most; not after Close.
  virtual void Retire(Keep keep) = 0;
  virtual bool idle() const = 0;
  // Returns true if the segment is written and the lane idle again, false if it waits for room or has failed.
  // REQUIRES: idle().
  virtual bool Send(links::Outbound outbound) = 0;
  // Returns whether bytes leave the process, and so are hashed.
  virtual bool has_connection() const { return true; }

  // Sets the pacing rate; 0: no pacing.
  void Pace(double bytes_per_second);
  // Resets congestion control.
  void Renew();
  // One system call.
  LaneTraffic traffic();
  const LaneLabel& label() const { return label_; }
  std::uint32_t send_payload_bytes_max() const { return send_payload_bytes_max_; }
  // Returns the scratch memory for codecs: allocated at the first call, free to use while the lane is idle.
  std::span<std::byte> codec_scratch();

  static constexpr std::size_t kTurnBytes = 256 << 10;  // received at once, then other events get their turn
  static constexpr Duration kRetireMax = std::chrono::seconds(5);

 protected:
  // Returns the connection's path; null without a connection.
  virtual StreamPath* path() = 0;
  // The connection's counters count from now on. Called by Start.
  void BeginTraffic();

 private:
  LaneLabel label_;
  LaneTraffic begin_;  // counters of its connection's earlier lanes
  std::uint32_t send_payload_bytes_max_;
  double pace_ = 0;
  std::vector<std::byte> codec_scratch_;
};

}  // namespace ringway::net
