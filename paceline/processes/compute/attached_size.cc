#include "paceline/processes/compute/attached_size.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "paceline/processes/rpc/local_socket.h"

namespace paceline::compute {

namespace {

constexpr std::size_t kOthers = 64 << 10;  // bytes of the rest of a server's order

}  // namespace

absl::Status check_size(const wire::WorkerAttached& attached, std::size_t job_bytes) {
  // A server of several hosts, or one that clips with others, is told of its own part of the layout, and of all parts.
  const std::size_t order = 2 * attached.layout().ByteSizeLong() + job_bytes + kOthers;
  const std::size_t bytes = std::max(attached.ByteSizeLong(), order);
  if (bytes <= rpc::kLongestFrame) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the model has {} tensors and {} frozen ones, and their names take {:.1f} MB of a message "
                  "that may have {} MB; give fewer of them, or shorter names",
                  attached.layout().tensors_size(), attached.frozen_size(),
                  static_cast<double>(bytes) / (1 << 20), rpc::kLongestFrame >> 20));
}

}  // namespace paceline::compute
