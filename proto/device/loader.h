// Finds the device library of this process.
//
//   RINGWAY_DEVICE_LIBRARY (environment)   that one, by path
//   a process with libcuda.so.1 in it      libringway-cuda.so.VERSION, beside this library or where the system looks
//   any other                              none: all its memory is the host's
//
// Threads: any.
#pragma once

#include <string>

#include "proto/device/library.h"

namespace ringway::device {

struct Loaded {
  Library* library = nullptr;  // null without a `problem`: no memory of this process is a device's
  std::string problem = {};    // why a library that should be there is not, and what to do
  bool is_named = false;       // by the environment
};

// Cheap enough to be called for every operation: looks again only when the process has loaded something since.
const Loaded& Load();

// Loads the driver into this process if the host has one: for programs that use a device by themselves.
void LoadDriver();

// Returns whether the driver calls this a device's memory, in a process without a device library.
bool IsDriversMemory(const void* memory);

}  // namespace ringway::device
