// The options that say where the master keeps its groups: --store and what belongs to it.
#pragma once

#include <CLI/CLI.hpp>
#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "master/leadership/store.h"
#include "proto/result.h"

namespace ringway {

struct StoreOptions {
  std::string store;  // as it was given; empty: a file in the state directory
  std::string journal;
  bool start_new = false;
  std::string advertise;  // HOST:PORT of this master for those who look for the leader; empty: where it listens
  std::string ca, cert, key, user, password_file;
  std::optional<std::int64_t> lease_s = {};  // of the leadership; nothing: ElectionOptions::lease_s
  bool insecure = false;                     // the program's
};

void AddStoreOptions(CLI::App& app, StoreOptions* options);

// Returns whether the store is one that several masters share.
bool IsShared(const StoreOptions& options);

// Returns Ok if the options fit together, and the files can be used. Does not ask etcd.
Status CheckStore(const StoreOptions& options);

struct Listening {
  std::uint16_t wanted_port = 0;  // 0: any
  std::string address;            // that it has
};
// REQUIRES: CheckStore(options).ok().
// Opens a file, or begins to seek the leadership when the store is started. Null for none. Says which it is in the log.
Result<std::unique_ptr<Store>> OpenStore(asio::io_context& io, const StoreOptions& options, const Listening& at);

}  // namespace ringway
