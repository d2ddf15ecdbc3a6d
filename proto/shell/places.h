// For --check-config: whether a program could use what it makes or opens when it starts. Changes nothing, and a running
// program's own files and ports are no fault; the answer holds for the user who asks.
//
// Errors: kInvalidArgument with a sentence that names the option and says what to do.
#pragma once

#include <string>

#include "proto/result.h"

namespace ringway::shell {

// A file to write to.
struct FilePlace {
  std::string option;
  std::string path;
  bool makes_directories = false;  // where they are missing above it
};
Status CheckFilePlace(const FilePlace& place);

// A Unix socket; directories are made.
Status CheckSocketPlace(const std::string& option, const std::string& path);

// HOST:PORT to listen on.
Status CheckListenPlace(const std::string& option, const std::string& address);

}  // namespace ringway::shell
