// A connection as everything above it sees it: bytes in order, both ways, without blocking.
//
//   Connector, Acceptor --> detached --Attach--> Read, Write, AwaitRead, AwaitWrite --Detach--> detached ...
//   destroyed: closed
//
// Read and Write move what can be moved now. Who gets kWouldBlock waits, and then calls the same again; what the stream
// itself has to wait for, which may be room to write while the caller reads, is its own affair: a wait ends also where
// another call has done what it was for. A stream that begins with a handshake does it within its first calls, so
// whoever limits the time of the first frame limits both.
//
// Threads: one at a time; between two of them it is detached. Lifetime: moved by unique_ptr. Its waits end with it; one
// that was over before may still call its waiter afterwards.
#pragma once

#include <array>
#include <asio/io_context.hpp>
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

// What a Read or a Write came to.
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

// Where bytes go and come from: the parts in order, at most kStreamPartsMax and one byte in all at least.
using ReadParts = std::span<const std::span<std::byte>>;
using WriteParts = std::span<const std::span<const std::byte>>;
inline constexpr std::size_t kStreamPartsMax = 2;

// Who is at the other end.
struct StreamPeer {
  std::string source;        // its host's address; of IPv6 the network's bytes, of which a host may have all addresses
  std::string address = {};  // its host's, without the port
  bool within_host = false;  // it is on this host, whatever its address
};

class StreamWaiter {
 public:
  virtual ~StreamWaiter() = default;
  // Read, or Write, may get further.
  virtual void OnReadable() = 0;
  virtual void OnWritable() = 0;
};

// What the kernel knows of a connection's path, and does on it. Each of one thread at a time.
class StreamPath {
 public:
  virtual ~StreamPath() = default;
  // One system call.
  virtual LaneTraffic Traffic() const = 0;
  // Smoothed; on a fresh connection the handshake's. 0: not known.
  virtual Duration RoundTrip() const = 0;
  virtual void Tune(LinkTuning tuning) = 0;
  // To send no faster than this; 0: as fast as the connection goes.
  virtual void SetPace(double bytes_per_second) = 0;
  // Congestion control looks for its rate again.
  virtual void Renew() = 0;
  // Ends the connection, here and now, whoever else uses it.
  virtual void Shutdown() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Where waits end from now on. REQUIRES: detached.
  virtual Status Attach(asio::io_context& loop) = 0;
  virtual void Detach() = 0;

  StreamIo Read(ReadParts into);
  StreamIo Read(std::span<std::byte> into) { return Read(std::array{into}); }
  virtual StreamIo Write(WriteParts from) = 0;
  StreamIo Write(std::span<const std::byte> from) { return Write(std::array{from}); }
  // Puts back what was read last, for the next Read. REQUIRES: no other call has read since.
  void Unread(std::span<const std::byte> bytes);

  // Calls once. No allocation of their own. REQUIRES: attached, and the last Read, or Write, would have blocked.
  virtual void AwaitRead(std::shared_ptr<StreamWaiter> waiter) = 0;
  virtual void AwaitWrite(std::shared_ptr<StreamWaiter> waiter) = 0;

  virtual StreamPeer peer() const = 0;
  // Who has proven to be at the other end; null: nobody has (yet). Valid as long as the stream.
  virtual const Identity* identity() const { return nullptr; }
  virtual StreamPath& path() = 0;
  // The same for another thread, which may keep it longer than the stream lives; null where descriptors have run out.
  virtual std::unique_ptr<StreamPath> SharePath() const = 0;

 protected:
  Stream() = default;

 private:
  // Read, from the connection.
  virtual StreamIo Receive(ReadParts into) = 0;

  std::string unread_;
};

}  // namespace ringway::net
