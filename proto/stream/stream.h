// A connection: bytes in order, both ways, without blocking.
//
//   Connector, Acceptor --> detached --Attach--> Read, Write, AwaitRead, AwaitWrite --Detach--> detached ...
//   destroyed: closed
//
// Read and Write move what they can now. After kWouldBlock, wait and repeat the same call. The stream knows what to
// wait for, which may be room to write during a Read; a wait may also end because another call has completed its work.
// A stream with a handshake performs it within its first calls, so a time limit for the first frame covers both.
//
// Threads: one at a time; to move between threads, detach. Lifetime: moved by unique_ptr. Destroying it ends its waits,
// but a wait that was over before may still call its waiter afterwards.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "proto/identity.h"
#include "proto/lane_traffic.h"
#include "proto/result.h"
#include "proto/stream/socket_options.h"

namespace ringway::net {

// The outcome of a Read or a Write.
struct StreamIo {
  enum class Kind : std::uint8_t {
    kBytes,       // `bytes`, one at least
    kWouldBlock,  // none now
    kEnd,         // none any more: the other side ended the connection
    kError,       // none any more: it is lost
  };
  Kind kind = Kind::kWouldBlock;
  std::size_t bytes = 0;
  std::string why = {};  // of kEnd and kError
};

// Scatter/gather list: the parts in order; at most kStreamPartsMax, at least one byte in all.
using ReadParts = std::span<const std::span<std::byte>>;
using WriteParts = std::span<const std::span<const std::byte>>;
inline constexpr std::size_t kStreamPartsMax = 2;

// The other end.
struct StreamPeer {
  std::string source;        // its host's address; of IPv6 the network's bytes, of which a host may have all addresses
  std::string address = {};  // its host's, without the port
  bool loopback = false;     // its address is a loopback one
  bool within_host = false;  // it is on this host, whatever its address
};

class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Read, or Write, may make progress.
  virtual void OnReadable() = 0;
  virtual void OnWritable() = 0;
};

// The kernel's state of a connection's path. Each object is used by one thread at a time.
class StreamPath {
 public:
  virtual ~StreamPath() = default;
  // One system call.
  virtual LaneTraffic Traffic() const = 0;
  // The shortest of late; on a fresh connection the handshake's. 0: not known.
  virtual Duration RoundTrip() const = 0;
  virtual void Tune(LinkTuning tuning) = 0;
  // Sets the pacing rate; 0: no pacing.
  virtual void SetPace(double bytes_per_second) = 0;
  // Congestion control probes for its rate anew.
  virtual void Renew() = 0;
  // Shuts the connection down at once, also for its other users.
  virtual void Shutdown() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Waits end in this event loop from now on. REQUIRES: detached.
  virtual Status Attach(asio::io_context& loop) = 0;
  virtual void Detach() = 0;

  StreamIo Read(ReadParts into);
  StreamIo Read(std::span<std::byte> into) { return Read(std::array{into}); }
  virtual StreamIo Write(WriteParts from) = 0;
  StreamIo Write(std::span<const std::byte> from) { return Write(std::array{from}); }
  // Returns the bytes of the last Read to the stream, for the next one. REQUIRES: no Read since.
  void Unread(std::span<const std::byte> bytes);

  // Calls the waiter once. Does not allocate. REQUIRES: attached, and the last Read, or Write, would have blocked.
  virtual void AwaitRead(std::shared_ptr<StreamSink> waiter) = 0;
  virtual void AwaitWrite(std::shared_ptr<StreamSink> waiter) = 0;

  virtual StreamPeer peer() const = 0;
  // The proven identity of the other end; null: none (yet). Valid as long as the stream.
  virtual const Identity* identity() const { return nullptr; }
  // Returns whether that proof still holds: its certificate has not ended.
  virtual bool IsProven() const { return true; }
  // The other end has opened the connection. Set before its first use.
  bool accepted() const { return accepted_; }
  void SetAccepted() { accepted_ = true; }
  // Streams are numbered as they are made, before the handshake.
  std::uint64_t number() const { return number_; }
  static std::uint64_t newest_number() { return newest_; }
  virtual StreamPath& path() = 0;
  // The same for another thread, which may outlive the stream; null if descriptors have run out.
  virtual std::unique_ptr<StreamPath> SharePath() const = 0;

 protected:
  Stream() = default;

 private:
  // Read, from the connection.
  virtual StreamIo Receive(ReadParts into) = 0;

  std::string unread_;
  bool accepted_ = false;
  static inline std::atomic<std::uint64_t> newest_ = 0;
  const std::uint64_t number_ = ++newest_;
};

}  // namespace ringway::net
