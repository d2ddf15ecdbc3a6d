// A lane (lane.h) whose bytes a lane thread moves, on a StreamLane there.
//
//   owner's loop                                lane thread
//     ThreadedLane                                LaneFarEnd
//       Send: the one segment           --bell-->   StreamLane writes it
//       OnLaneIdle, releases its keep   <--bell--   written
//       OnLaneHeader, OnLanePayload     <--bell--   a whole payload in a buffer, with its hash
//       buffers are free again          --bell-->   they return to the thread's pool
//       OnLaneClosed                    <--bell--   failed, or ended by the other side
//       Close, Retire                   --bell-->   closes, retires
//       releases the segment being sent <--bell--   closed, or released
//
// A lane thread writes only to buffers of its own pool. So an output may be dropped or reused at any moment without
// notifying that thread, at the cost of one copy of payloads with another target. It reads only the segment that it
// sends, whose memory is held until it is written or the lane's far end has closed.
//
// Lock-free, one message a segment each way. Bounded: one outgoing segment; each incoming payload holds a buffer of its
// peer's share of the pool, so kFramesMax is never exceeded, and the lanes of a peer that holds its share are not read.
//
// Threads: the owner's, which never blocks. Lifetime: the two ends hold each other until both have closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/net/doorbell.h"
#include "daemon/net/lane.h"
#include "daemon/net/lane_threads.h"
#include "daemon/net/scratch_pool.h"
#include "daemon/net/spsc_ring.h"
#include "daemon/net/stream_lane.h"

namespace ringway::net {

// State shared by the two ends of a ThreadedLane. Each flag is stored (release) by one end after the data that belongs
// to it, and loaded (acquire) by the other before that data.
struct LaneCrossing {
  static constexpr std::size_t kFramesMax = 64;
  static_assert(ScratchPoolOptions().held_max() <= kFramesMax);

  struct Frame {
    SegmentHeader header;
    Scratch payload;
    std::uint64_t hash = 0;
  };

  // ---- written by the owner
  std::unique_ptr<Stream> beginning;  // before the first ring
  links::Outbound outbound;           // only the owner touches its keep
  std::atomic<bool> send = false;
  std::atomic<bool> close = false;   // then the owner does not touch `frames` any more
  std::atomic<bool> retire = false;  // likewise
  Lane::Keep keep;                   // before `retire`
  // ---- written by the far end
  SpscRing<Frame, kFramesMax> frames;
  std::atomic<bool> written = false;
  std::string why_failed;
  std::atomic<bool> failed = false;
  std::atomic<bool> closed = false;  // then the far end does not read `outbound` any more
};

// The end on the lane thread; all calls are made there.
class LaneFarEnd final : public LaneSink, public Doorbell::Sink, public std::enable_shared_from_this<LaneFarEnd> {
 public:
  // `near` is rung at `home` when it has work.
  LaneFarEnd(std::shared_ptr<LaneCrossing> crossing, LaneThread& thread, Doorbell& home,
             std::shared_ptr<Doorbell::Sink> near, LaneLabel label);

  // ---- Doorbell::Sink
  void OnRung() override;
  // ---- LaneSink
  Result<links::Inbound> OnLaneHeader(const links::LinkId& lane, const SegmentHeader& header) override;
  Status OnLanePayload(const links::LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) override;
  bool IsAttemptLive(std::uint64_t) override { return true; }
  void OnLaneIdle() override;
  void OnLaneClosed(const links::LinkId& lane, const std::string& why) override;

 private:
  void Begin();
  void Retire();
  void End();

  std::shared_ptr<LaneCrossing> crossing_;
  LaneThread& thread_;
  Doorbell& home_;
  std::shared_ptr<Doorbell::Sink> near_;  // until the far end has closed
  LaneLabel label_;
  std::shared_ptr<StreamLane> stream_;
  SegmentHeader header_;
};

class ThreadedLane final : public Lane, public Doorbell::Sink, public std::enable_shared_from_this<ThreadedLane> {
 public:
  ThreadedLane(Doorbell& home, LaneThread& thread, LaneLabel label, std::uint32_t send_payload_bytes_max);
  ~ThreadedLane() override;

  // ---- Lane
  void Start(std::unique_ptr<Stream> stream, LaneSink* sink) override;
  void Close() override;
  void Retire(Keep keep) override;
  bool idle() const override { return sink_ != nullptr && !sending_; }
  // Always returns false: OnLaneIdle reports when the lane is idle again.
  bool Send(links::Outbound outbound) override;
  // ---- Doorbell::Sink
  void OnRung() override;

 private:
  StreamPath* path() override { return path_.get(); }
  // Returns kProtocol, or the sink's error, if the lane must be closed.
  Status TakeFrames();
  Status Take(const LaneCrossing::Frame& frame);
  void Fail(const std::string& why);
  void LeaveFarEnd();

  std::shared_ptr<LaneCrossing> crossing_ = std::make_shared<LaneCrossing>();
  Doorbell& home_;
  LaneThread& thread_;
  std::shared_ptr<LaneFarEnd> far_;   // null before the start and after the end
  std::unique_ptr<StreamPath> path_;  // of the same connection, for the owner's use at any time
  LaneSink* sink_ = nullptr;
  bool sending_ = false;
  bool taking_ = false;  // a frame of the ring is in use
};

}  // namespace ringway::net
