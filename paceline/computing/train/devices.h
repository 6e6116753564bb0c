// The devices that libtorch finds on this machine.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::train {

struct Devices {
  std::string version;    // libtorch's
  std::int64_t cuda = 0;  // devices that CUDA can use
};

Devices devices();

}  // namespace paceline::train
