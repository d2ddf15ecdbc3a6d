// What of this kernel's settings slows long paths down, and what to do about it.
//
// Blocks on a few small files: for start-up only. Any thread.
#pragma once

#include <string>
#include <vector>

namespace ringway::net {

// A sentence each, none if nothing is wrong or known. `lacks_bbr`: it is wanted, and the kernel refuses it. `proc_sys`:
// where the settings are; those of TCP are the process's network namespace's own.
std::vector<std::string> KernelAdvice(bool lacks_bbr, const std::string& proc_sys = "/proc/sys");

}  // namespace ringway::net
