// A connection (stream.h) that carries control frames (proto/frame_codec.h).
//
// Used for the master link, for handshakes and for control links. Reading starts with Start and never stops: a frame is
// given to the sink as soon as it is whole, at most about 256 KiB of input a turn so that others get theirs. Sending
// goes through one bounded buffer: Queue appends, Flush writes what the kernel takes; the rest follows by itself. When
// the buffer would exceed its bound the socket is closed: the other side does not read, and memory is finite.
//
//   Start --> [ OnFrame* ] --> OnClosed        once, posted, never from within a call of this object
//                          --> Close, Release  by the owner: then the sink is never called again
//
// Threads: one. Lifetime: shared, its handlers hold it; the sink must live until OnClosed, Close or Release.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "proto/frame_codec.h"
#include "proto/result.h"
#include "proto/stream/stream.h"

namespace ringway::net {

class FramedSocket;

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // One frame, valid during the call. A Status that is not ok closes the socket with its text.
  virtual Status OnFrame(std::span<const std::byte> frame) = 0;
  virtual void OnClosed(const std::string& why) = 0;
  // A longer frame closes the socket.
  virtual std::size_t FrameBytesMax() const { return kFrameBytesMax; }
  // Bytes for somebody who speaks protocol version 1, before the connection closes; none: nothing is said.
  virtual std::string AnswerToVersion1() { return {}; }
};

class FramedSocket final : public StreamSink, public std::enable_shared_from_this<FramedSocket> {
 public:
  FramedSocket(asio::io_context& context, std::size_t queue_bytes_max);

  // Takes a detached stream. Call once.
  void Start(std::unique_ptr<Stream> stream, FrameSink* sink);

  void Queue(const google::protobuf::MessageLite& message);
  void Flush();
  bool open() const { return sink_ != nullptr && !failed_; }
  // Stream::identity(); null also after the end.
  const Identity* identity() const { return stream_ == nullptr ? nullptr : stream_->identity(); }
  bool IsProven() const { return stream_ != nullptr && stream_->IsProven(); }

  // Silent.
  void Close();
  // Releases the stream, detached, with what was read beyond the frames delivered unread; null if it has failed. May
  // be called from OnFrame.
  std::unique_ptr<Stream> Release();

  // ---- StreamSink
  void OnReadable() override;
  void OnWritable() override;

 private:
  static constexpr std::size_t kReadBytes = 8 * 1024;  // at once
  static constexpr std::size_t kTurnBytes = 256 * 1024;

  void AwaitRoom();
  bool Deliver(std::span<const std::byte> bytes);
  void Fail(const std::string& why);

  asio::io_context& context_;
  std::unique_ptr<Stream> stream_;  // null before the start and after the end
  FrameReader reader_;
  FrameSink* sink_ = nullptr;
  std::string out_;
  std::size_t out_sent_ = 0;
  std::size_t queue_bytes_max_;
  bool writing_ = false;  // a wait for room is under way
  bool failed_ = false;   // OnClosed is posted
};

}  // namespace ringway::net
