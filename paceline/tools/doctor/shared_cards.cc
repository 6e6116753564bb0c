#include "paceline/tools/doctor/shared_cards.h"

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/counted.h"

namespace paceline::doctor {

std::optional<Finding> shared_cards(std::int64_t workers, std::int64_t cards, bool mps) {
  PACELINE_CHECK(cards > 0, "{} cards", cards);
  if (workers <= cards) return std::nullopt;
  const std::string who = fmt::format("{} workers share {}", workers, counted(cards, "GPU"));
  if (mps)
    return Finding{"GPUs", Health::kOk, who + ", and NVIDIA's MPS runs their kernels side by side", ""};
  return Finding{"GPUs", Health::kWarn, who + " in turns: only one of them computes on it at a time",
                 "start NVIDIA's MPS before the run, as the same user: nvidia-cuda-mps-control -d"};
}

}  // namespace paceline::doctor
