// One lane: a TCP connection that carries segments, each a header (proto/segment_header.h) and its payload.
//
// Receiving:
//
//   header <----------------------------------------------------------+
//     | decoded, sink says where the payload goes                     |
//     +-- direct ---> read into the target --+                        |
//     |     | attempt not live any more      +-- whole --> OnPayload --+
//     +-- scratch --> read into a buffer ----+                        |
//     |     (none free: not read until one is returned)               |
//     +-- discard --> skipped --------------------------- whole -------+
//
// A read-ahead buffer takes header and small payload in one call; the rest of a large payload is read straight to where
// it belongs, and what follows it into the read-ahead again. About 256 KiB a turn, then other events get theirs.
//
// Sending: one segment at a time; idle() says whether the next may come. Nothing is queued here.
//
// Threads: one (data thread). Lifetime: shared, its handlers hold it; the sink must live until OnLaneClosed or Close.
// Any failure closes the lane: a byte stream that lost its place cannot be repaired. No allocation per segment.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/net/scratch_pool.h"
#include "daemon/net/tcp_traffic.h"
#include "daemon/net/unique_fd.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::net {

// Where a payload goes. kDirect: into `target`, held by `keep`, while `attempt` is live. kScratch: into a buffer of the
// pool. kDiscard: nowhere, and OnPayload is not called.
struct LaneInbound {
  enum class Kind : std::uint8_t { kDirect, kScratch, kDiscard };
  Kind kind = Kind::kDiscard;
  std::byte* target = nullptr;
  std::uint64_t attempt = 0;
  std::shared_ptr<const void> keep;
};

// `keep` holds the payload's memory until its last byte is written.
struct LaneOutbound {
  std::array<std::byte, kSegmentHeaderBytes> header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keep;
};

// What a lane is called: lane `id` of the pair with `other`.
struct LaneLabel {
  PeerId other;
  LaneId id;
};

// The sink may close any lane, the calling one too, from within its calls.
class LaneSink {
 public:
  virtual ~LaneSink() = default;
  virtual Result<LaneInbound> OnLaneHeader(const LaneLabel& lane, const SegmentHeader& header) = 0;
  virtual Status OnLanePayload(const LaneLabel& lane, std::span<const std::byte> payload) = 0;
  virtual bool IsAttemptLive(std::uint64_t attempt) = 0;
  // A segment that had to wait for room is written: the lane is idle.
  virtual void OnLaneIdle() = 0;
  // Once, posted, never from within a call of the lane.
  virtual void OnLaneClosed(const LaneLabel& lane, const std::string& why) = 0;
};

class Lane : public ScratchWaiter, public std::enable_shared_from_this<Lane> {
 public:
  // `send_payload_bytes_max`: what it will be asked to carry; the size of codec_scratch.
  Lane(asio::io_context& context, ScratchPool& pool, LaneLabel label, std::uint32_t send_payload_bytes_max);
  ~Lane() override;

  // Takes a connected, non-blocking socket; `already_read` (shorter than the read-ahead buffer) came from it before.
  void Start(UniqueFd fd, std::span<const std::byte> already_read, LaneSink* sink);
  void Close();

  const LaneLabel& label() const { return label_; }
  bool idle() const { return sink_ != nullptr && !failed_ && !sending_; }
  // Gives true if the segment is written and the lane idle again, false if it waits for room or has failed.
  // REQUIRES: idle().
  bool Send(LaneOutbound outbound);
  // To send no faster than this; 0: as fast as the connection goes.
  void Pace(double bytes_per_second);
  // One system call.
  TcpTraffic traffic() { return TrafficOf(socket_.native_handle()); }
  std::uint32_t send_payload_bytes_max() const { return send_payload_bytes_max_; }
  // For codecs: allocated at the first call, free to use while the lane is idle.
  std::span<std::byte> codec_scratch();

  void OnScratch(Scratch scratch) override;

  static constexpr std::size_t kReadAheadBytes = 8 * 1024;

 private:
  enum class Receiving : std::uint8_t { kHeader, kAwaitScratch, kPayload };
  static constexpr std::size_t kTurnBytes = 256 << 10;

  bool open() const { return sink_ != nullptr && !failed_; }
  std::size_t available() const { return end_ - begin_; }
  void ArmRead();
  void ReadTurn();
  // Each gives false when the turn is over: closed, failed, or waiting for scratch.
  bool Consume();
  bool TakeHeader();
  bool TakePayload();
  bool PayloadWhole();
  ssize_t Receive();
  std::byte* PayloadTarget();
  bool WriteOn();
  void ArmWrite();
  void Fail(const std::string& why);
  void Reset();

  asio::io_context& context_;
  asio::posix::stream_descriptor socket_;
  ScratchPool& pool_;
  LaneLabel label_;
  LaneSink* sink_ = nullptr;
  bool failed_ = false;

  Receiving receiving_ = Receiving::kHeader;
  std::array<std::byte, kReadAheadBytes> read_ahead_;
  std::size_t begin_ = 0;  // read_ahead_[begin_, end_) is read but not consumed
  std::size_t end_ = 0;
  LaneInbound inbound_;
  Scratch scratch_;
  std::size_t payload_bytes_ = 0;
  std::size_t payload_got_ = 0;

  bool sending_ = false;
  LaneOutbound outbound_;
  std::size_t sent_bytes_ = 0;
  double pace_ = 0;
  std::uint32_t send_payload_bytes_max_;
  std::vector<std::byte> codec_scratch_;
};

}  // namespace ringway::net
