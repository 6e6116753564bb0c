#include "paceline/processes/compute/role_not_taken.h"

#include "paceline/processes/compute/stage_channels.h"

namespace paceline::compute {

absl::Status role_not_taken(const absl::Status& why,
                            const std::function<bool(std::chrono::nanoseconds)>& order_comes) {
  if (order_comes(kWordOfIt)) return absl::OkStatus();
  return absl::IsNotFound(why) ? absl::AbortedError(why.message()) : why;
}

}  // namespace paceline::compute
