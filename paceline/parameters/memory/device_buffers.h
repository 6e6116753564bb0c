// Memory for the buffers of a board that no processor can read: a card's. The board knows only addresses.
#pragma once

#include <absl/status/statusor.h>

namespace paceline::memory {

class DeviceBuffers {
 public:
  virtual ~DeviceBuffers() = default;
  // The address of that buffer on the device, which is made when it is first asked for. Errors: the device
  // has no room.
  virtual absl::StatusOr<float*> at(int index) = 0;
};

}  // namespace paceline::memory
