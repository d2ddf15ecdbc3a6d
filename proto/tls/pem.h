// Reads files of OpenSSL's objects in PEM.
#pragma once

#include <openssl/bio.h>

#include <cstddef>
#include <memory>
#include <string>

#include "proto/result.h"
#include "proto/tls/freer.h"

namespace ringway::tls {

using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;

inline constexpr std::size_t kPemBytesMax = std::size_t{64} << 10;

// Returns the text of a file. kInvalidArgument: it cannot be read, or is longer than `bytes_max`.
Result<std::string> ReadPem(const std::string& path, std::size_t bytes_max = kPemBytesMax);

// Reads `text`, which outlives it.
Bio BioOf(const std::string& text);

// Returns whether the last read of this thread found no more objects, rather than a torn one.
bool ReadToTheEnd();

// Removes and returns OpenSSL's last error of this thread.
std::string TakeOpensslError();

}  // namespace ringway::tls
