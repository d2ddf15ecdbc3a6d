// A lane (lane.h) whose bytes its own event loop moves.
//
// Receiving:
//
//   header <----------------------------------------------------------+
//     | decoded, sink chooses the payload's target                    |
//     +-- direct ---> read into the target --+                        |
//     |     | attempt not live any more      +-- whole --> OnPayload --+
//     +-- scratch --> read into a buffer ----+                        |
//     |     (none for its peer: not read until there is one)           |
//     +-- discard --> skipped --------------------------- whole -------+
//
// A read-ahead buffer takes header and small payload in one call; the rest of a large payload is read straight into its
// target, and what follows it into the read-ahead again. kTurnBytes a turn, then other events get theirs.
//
// Threads: that of the loop. Lifetime: its handlers hold it. No allocation per segment.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/net/lane.h"
#include "daemon/net/scratch_pool.h"
#include "proto/stream/timer.h"

namespace ringway::net {

class StreamLane final : public Lane,
                         public StreamSink,
                         public ScratchSink,
                         public std::enable_shared_from_this<StreamLane> {
 public:
  // `pool`: of the loop's thread.
  StreamLane(asio::io_context& context, ScratchPool& pool, LaneLabel label, std::uint32_t send_payload_bytes_max);
  ~StreamLane() override;

  // ---- Lane
  void Start(std::unique_ptr<Stream> stream, LaneSink* sink) override;
  void Close() override;
  void Retire(Keep keep) override;
  bool idle() const override { return open() && !sending_ && !ended_there_ && !retires(); }
  bool Send(links::Outbound outbound) override;
  // ---- StreamSink
  void OnReadable() override;
  void OnWritable() override;
  // ---- ScratchSink
  void OnScratch(Scratch scratch) override;

  // During OnLanePayload: moves the payload's buffer to the sink. Empty if the payload is not in one.
  Scratch TakeScratch() { return std::move(whole_); }

 private:
  enum class Receiving : std::uint8_t { kHeader, kAwaitScratch, kPayload };

  static constexpr std::size_t kReadAheadBytes = 8 * 1024;

  StreamPath* path() override { return stream_ == nullptr ? nullptr : &stream_->path(); }
  bool open() const { return sink_ != nullptr && !failed_; }
  bool retires() const { return retiring_.has_value(); }
  std::size_t available() const { return end_ - begin_; }
  // Each returns false when the turn is over: closed, failed, or waiting for scratch.
  bool Consume();
  bool TakeHeader();
  bool TakePayload();
  bool PayloadWhole();
  StreamIo Receive();
  std::byte* PayloadTarget();
  bool WriteOn();
  void OnWritten();
  void OnEnd();
  void ReleaseIfOver();
  void Release(std::unique_ptr<Stream> stream);
  void Fail(const std::string& why);
  void Reset();

  asio::io_context& context_;
  std::unique_ptr<Stream> stream_;  // null before the start and after the end
  ScratchPool& pool_;
  std::shared_ptr<ScratchAccount> account_;
  LaneSink* sink_ = nullptr;
  bool failed_ = false;

  Receiving receiving_ = Receiving::kHeader;
  std::array<std::byte, kReadAheadBytes> read_ahead_;
  std::size_t begin_ = 0;  // read_ahead_[begin_, end_) is read but not consumed
  std::size_t end_ = 0;
  links::Inbound inbound_;
  Scratch scratch_;
  Scratch whole_;  // during OnLanePayload
  std::size_t payload_bytes_ = 0;
  std::size_t payload_got_ = 0;

  bool sending_ = false;
  links::Outbound outbound_;
  std::size_t sent_bytes_ = 0;

  bool ended_there_ = false;  // the other side's kEnd was received: nothing is read any more
  struct Retiring {
    Retiring(asio::io_context& context, Keep then) : keep(std::move(then)), limit(context) {}

    Keep keep;
    Timer limit;
    bool said = false;  // the kEnd frame is being sent, or was
  };
  std::optional<Retiring> retiring_;
};

}  // namespace ringway::net
