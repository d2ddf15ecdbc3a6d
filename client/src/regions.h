// The regions of a session: where the bytes of each operation are placed, and which regions the daemon knows.
//
// Placement: an input inside a Buffer is read in place; any other is staged through a pooled region. A result goes
// straight into an output Buffer of another region than the input; else into a pooled region, from which Wait copies
// after commit. So only the trainer's own threads write to its memory, and where input and output are the same nobody
// does before commit.
//
// Threads: any. Functions without a Lock take the session's mutex themselves.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <ringway/ringway.hpp>

#include "client/src/memberships.h"
#include "client/src/request.h"

namespace ringway::internal {

// kSpare: for a Buffer, from memory that the trainer has not used, so that its next operations have what they had.
enum class RegionUse { kStaging, kBuffer, kSpare };

class Regions {
 public:
  // `memberships` outlives this.
  explicit Regions(Memberships* memberships) : memberships_(*memberships) {}

  // Returns regions with one more user, for ReleaseSlot.
  Result<Placement> Place(const Request& request);

  // Returns a region with one user. Evicts others for it if there is no room, unless it is kSpare.
  Result<Region*> Acquire(std::size_t bytes, RegionUse use);
  void ReleaseBuffer(Region* region);
  // How many Buffers of this size the daemon takes beside those in use.
  std::size_t RoomFor(std::size_t bytes);
  // What was used until now says nothing of what the trainer uses (RegionPool::IsSpare).
  void ForgetPeak();
  // The limit of a new membership's daemon (RegionPool).
  void SetBytesMax(const Lock& /*lock*/, std::size_t bytes) { pool_.SetBytesMax(bytes); }

  void AddUser(const Lock& /*lock*/, Region* region) { pool_.AddUser(region); }
  void Release(const Lock& lock, Region* region);
  // Releases what a slot has used, or was to use. `lacks_memory`: the daemon refused the operation for lack of memory,
  // and perhaps its regions for good.
  void ReleaseSlot(const Lock& lock, Link* link, const Placement& placement, bool lacks_memory);

  // Makes the region known to the link's daemon unless it is. REQUIRES: the caller uses the region.
  Status Register(Link* link, Region* region, const Deadline& deadline);

 private:
  // A buffer of a request.
  struct Memory {
    const char* name = "";
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t element_bytes = 1;
    device::Library* library = nullptr;
    std::optional<std::int32_t> device = {};  // whose memory it is; nullopt: the host's
  };
  // Returns the Buffer's region that holds all of the memory at an aligned offset; null: the memory must be copied.
  Result<Region*> FindZeroCopy(const Lock& lock, const Memory& memory) const;
  // `taken`: a region that this buffer may not share, or null. Sets `place`, whose region has one more user, even if it
  // cannot be pinned.
  Status PlaceMemory(const Memory& memory, const Region* taken, BufferPlace* place);
  Result<Region*> Create(std::size_t class_bytes, RegionUse use);
  // Returns false, and the daemon still knows the region, if the socket is full. REQUIRES: no other thread uses it.
  static bool Unregister(const Lock& lock, Link* link, Region* region);
  bool EvictOldest(const Lock& lock);
  void Trim(const Lock& lock);

  Memberships& memberships_;
  std::mutex registering_;  // one Register at a time; taken before the session's mutex
  RegionPool pool_;
};

}  // namespace ringway::internal
