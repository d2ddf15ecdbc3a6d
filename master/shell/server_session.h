// One connection of the master's server.
//
//   stranger --status or plan request--> client        closed after `hello_timeout` of silence
//            --hello that is accepted--> daemon        the coordinator judges its silence
//
// Until it is a daemon only small frames are accepted (kStrangerFrameBytesMax). A connection with a pending request is
// not read until the answer is written, so a client that does not read gets no more. Output beyond kQueueBytesMax
// closes the connection.
//
// Threads: the server's. Kept alive by its own pending handlers; the server forgets it when it closes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "master/shell/server.h"
#include "proto/frame_codec.h"
#include "proto/stream/timer.h"

namespace ringway {

class Server::Session final : public net::StreamSink, public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t kStrangerFrameBytesMax = 4096;  // a hello takes less than one KiB
  static constexpr std::size_t kQueueBytesMax = 16 << 20;

  Session(Server& server, std::uint64_t id, std::unique_ptr<net::Stream> stream);

  void Start();
  void Send(const control::FromMaster& message);
  // Sends the answer to its request.
  void Answer(std::shared_ptr<const std::string> frame);
  void CloseAfterWrite();
  // `how`: kClosed if the other side closed the connection.
  void Close(const std::string& why, Contact how = Contact::kSilent);
  // The server is being destroyed: reports nothing to it any more.
  void Abandon();

  // The host that it comes from.
  const std::string& source() const { return peer_.source; }
  const std::string& address() const { return peer_.address; }
  // Stream::identity(); null also when closed.
  const Identity* identity() const { return stream_ == nullptr ? nullptr : stream_->identity(); }
  // The other end is on this host.
  bool is_local() const { return peer_.within_host; }
  Kind kind() const { return kind_; }
  void Become(Kind kind);

  // ---- net::StreamSink
  void OnReadable() override;
  void OnWritable() override;

 private:
  void ArmTimer();
  // The caller runs it in a turn of the loop of its own.
  void Read();
  void OnBytes(std::span<const std::byte> bytes);
  // Handles the complete frames, unless an answer is pending.
  void OnFrames();
  void RefuseVersion1(const Status& why);
  // Writes the queue or the answer. In a turn of its own, so that messages sent in one turn go out together.
  void Write();
  void OnWritten();

  Server& server_;
  const std::uint64_t id_;
  std::unique_ptr<net::Stream> stream_;  // null when closed
  const net::StreamPeer peer_;
  net::Timer timer_;
  Kind kind_ = Kind::kStranger;
  FrameReader reader_;
  std::string queue_;    // to be written after `writing_`
  std::string writing_;  // being written; empty if that is `answer_`, or nothing
  std::shared_ptr<const std::string> answer_;
  std::size_t written_ = 0;  // of `writing_` or the answer
  bool asked_ = false;       // and the answer is not written: nothing is read
  bool writes_ = false;      // OnWritable is pending
  bool close_after_write_ = false;
  bool closed_ = false;
};

}  // namespace ringway
