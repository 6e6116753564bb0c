// An anonymous file in memory (memfd): it has no name on disk, and is gone with its last descriptor.
#pragma once

#include <string>

#include "paceline/base/file_descriptor.h"

namespace paceline {

// An empty one, which may be sealed and is closed by exec(). `name`: what /proc shows. Not valid() if the system gives
// none, and errno says why.
FileDescriptor new_memory_file(const std::string& name);

}  // namespace paceline
