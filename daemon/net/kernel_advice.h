// Kernel settings that slow long paths down, with advice.
//
// Blocks on a few small files: for start-up only. Any thread.
#pragma once

#include <string>
#include <vector>

namespace ringway::net {

// Returns a sentence each; empty if nothing is wrong or known. `lacks_bbr`: bbr is wanted, and the kernel refuses it.
// `proc_sys`: the settings; those of TCP belong to the process's network namespace.
std::vector<std::string> KernelAdvice(bool lacks_bbr, const std::string& proc_sys = "/proc/sys");

}  // namespace ringway::net
