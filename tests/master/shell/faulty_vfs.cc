#include "tests/master/shell/faulty_vfs.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <sstream>

namespace ringway {

std::string FileContents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// SQLite allocates it, with the real file behind it.
struct FaultyVfs::File {
  sqlite3_file base;
  FaultyVfs* vfs;
  std::string* path;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

struct FileCalls {
  using File = FaultyVfs::File;
  static File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  static int Close(sqlite3_file* file) {
    delete Of(file).path;
    return Of(file).real()->pMethods->xClose(Of(file).real());
  }
  static int Read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 offset) {
    if (Of(file).vfs->dead()) return SQLITE_IOERR_READ;
    return Of(file).real()->pMethods->xRead(Of(file).real(), out, bytes, offset);
  }
  static int Write(sqlite3_file* file, const void* in, int bytes, sqlite3_int64 offset) {
    File& self = Of(file);
    if (const int code = self.vfs->Strike(FaultyVfs::Call::kWrite, *self.path); code != SQLITE_OK) return code;
    self.vfs->pending_.push_back({.path = *self.path,
                                  .offset = static_cast<std::uint64_t>(offset),
                                  .bytes = std::string(static_cast<const char*>(in), static_cast<std::size_t>(bytes))});
    return self.real()->pMethods->xWrite(self.real(), in, bytes, offset);
  }
  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    File& self = Of(file);
    if (self.vfs->dead()) return SQLITE_IOERR_TRUNCATE;
    self.vfs->pending_.push_back(
        {.path = *self.path, .offset = static_cast<std::uint64_t>(size), .bytes = {}, .truncates = true});
    return self.real()->pMethods->xTruncate(self.real(), size);
  }
  static int Sync(sqlite3_file* file, int flags) {
    File& self = Of(file);
    FaultyVfs& vfs = *self.vfs;
    if (const int code = vfs.Strike(FaultyVfs::Call::kSync, *self.path); code != SQLITE_OK) return code;
    if (vfs.lies_) return SQLITE_OK;
    std::erase_if(vfs.pending_, [&](const FaultyVfs::Write& write) {
      if (write.path != *self.path) return false;
      FaultyVfs::Apply(write, &vfs.synced_[write.path]);
      return true;
    });
    return self.real()->pMethods->xSync(self.real(), flags);
  }
  static int FileSize(sqlite3_file* file, sqlite3_int64* out) {
    return Of(file).real()->pMethods->xFileSize(Of(file).real(), out);
  }
  static int Lock(sqlite3_file* file, int lock) { return Of(file).real()->pMethods->xLock(Of(file).real(), lock); }
  static int Unlock(sqlite3_file* file, int lock) { return Of(file).real()->pMethods->xUnlock(Of(file).real(), lock); }
  static int CheckReservedLock(sqlite3_file* file, int* out) {
    return Of(file).real()->pMethods->xCheckReservedLock(Of(file).real(), out);
  }
  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file* file) { return Of(file).real()->pMethods->xSectorSize(Of(file).real()); }
  // Reports no property that would save SQLite a sync.
  static int DeviceCharacteristics(sqlite3_file*) { return 0; }

  static int OpenFile(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    return static_cast<FaultyVfs*>(vfs->pAppData)->Open(name, file, flags, out_flags);
  }
  static int DeleteFile(sqlite3_vfs* vfs, const char* name, int sync) {
    return static_cast<FaultyVfs*>(vfs->pAppData)->Delete(name, sync);
  }
};

FaultyVfs::FaultyVfs() : real_(sqlite3_vfs_find(nullptr)) {
  vfs_ = *real_;
  vfs_.iVersion = 1;
  vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
  vfs_.pNext = nullptr;
  vfs_.zName = kName;
  vfs_.pAppData = this;
  vfs_.xOpen = FileCalls::OpenFile;
  vfs_.xDelete = FileCalls::DeleteFile;
  sqlite3_vfs_register(&vfs_, 0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&vfs_); }

int FaultyVfs::Open(const char* name, sqlite3_file* file, int flags, int* out_flags) {
  static const sqlite3_io_methods kMethods = [] {
    sqlite3_io_methods methods{};
    methods.iVersion = 1;
    methods.xClose = FileCalls::Close;
    methods.xRead = FileCalls::Read;
    methods.xWrite = FileCalls::Write;
    methods.xTruncate = FileCalls::Truncate;
    methods.xSync = FileCalls::Sync;
    methods.xFileSize = FileCalls::FileSize;
    methods.xLock = FileCalls::Lock;
    methods.xUnlock = FileCalls::Unlock;
    methods.xCheckReservedLock = FileCalls::CheckReservedLock;
    methods.xFileControl = FileCalls::FileControl;
    methods.xSectorSize = FileCalls::SectorSize;
    methods.xDeviceCharacteristics = FileCalls::DeviceCharacteristics;
    return methods;
  }();
  auto* self = new (file) File{.base = {}, .vfs = this, .path = nullptr};
  if (dead()) return SQLITE_CANTOPEN;
  const int code = real_->xOpen(real_, name, self->real(), flags, out_flags);
  if (code != SQLITE_OK) return code;
  self->path = new std::string(name == nullptr ? "" : name);
  self->base.pMethods = &kMethods;
  synced_.try_emplace(*self->path, FileContents(*self->path));
  return SQLITE_OK;
}

int FaultyVfs::Delete(const char* name, int sync) {
  if (dead()) return SQLITE_IOERR_DELETE;
  synced_.erase(name);
  std::erase_if(pending_, [&](const Write& write) { return write.path == name; });
  return real_->xDelete(real_, name, sync);
}

int FaultyVfs::Strike(Call call, const std::string& path) {
  if (dead()) return SQLITE_IOERR;
  if (call == Call::kWrite) --lives_;  // this one still counts
  if (!failure_.armed || failure_.call != call || failure_.left-- > 0) return SQLITE_OK;
  failure_.armed = false;
  if (failure_.code != kEmptied) return failure_.code;
  return ::truncate(path.c_str(), 0) == 0 ? SQLITE_OK : SQLITE_IOERR;
}

void FaultyVfs::Apply(const Write& write, std::string* disk) {
  if (write.truncates) return disk->resize(write.offset);
  disk->resize(std::max(disk->size(), write.offset + write.bytes.size()));
  disk->replace(write.offset, write.bytes.size(), write.bytes);
}

void FaultyVfs::LosePower(std::size_t kept) const {
  std::map<std::string, std::string> disks = synced_;
  for (std::size_t i = 0; i < pending_.size() && i <= kept; ++i) {
    Write write = pending_[i];
    if (i == kept) write.bytes.resize(write.bytes.size() / 2);
    if (i < kept || !write.truncates) Apply(write, &disks[write.path]);
  }
  for (const auto& [path, bytes] : disks) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace ringway
