#include "paceline/decisions/planner/what_fits.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "paceline/decisions/planner/search.h"

namespace paceline::planner {

namespace {

constexpr std::int64_t kMostMore = 16;

bool fits(const Problem& problem) { return any_plan(CostModel(problem)).ok(); }

std::optional<std::int64_t> smaller_micro_batch(Problem problem) {
  for (std::int64_t u = problem.micro_batches.front() / 2; u >= 1; u /= 2) {
    problem.micro_batches = {u};
    if (fits(problem)) return u;
  }
  return std::nullopt;
}

// Links do not matter for memory.
std::optional<std::int64_t> more_devices(Problem problem, std::size_t like) {
  std::vector<Device>& devices = problem.cluster.devices;
  for (std::int64_t more = 1; more <= kMostMore; ++more) {
    devices.push_back(devices[like]);
    problem.cluster.links.assign(devices.size() * devices.size(), Link{});
    if (fits(problem)) return more;
  }
  return std::nullopt;
}

}  // namespace

std::string what_would_fit(const Problem& problem) {
  const std::vector<std::int32_t> present = present_devices(problem.cluster);
  if (present.empty()) return "";
  const auto memory = [&](std::int32_t n) {
    return problem.cluster.devices[static_cast<std::size_t>(n)].memory_bytes;
  };
  const std::int32_t largest = *std::max_element(
      present.begin(), present.end(), [&](std::int32_t a, std::int32_t b) { return memory(a) < memory(b); });
  std::string text;
  if (const auto u = smaller_micro_batch(problem)) text = fmt::format("micro-batches of {} would fit", *u);
  if (const auto more = more_devices(problem, static_cast<std::size_t>(largest))) {
    text +=
        fmt::format("{}{} more device{} like {}{}", text.empty() ? "" : ", or ", *more, *more == 1 ? "" : "s",
                    problem.cluster.devices[static_cast<std::size_t>(largest)].name,
                    text.empty() ? " would be enough" : "");
  }
  return text;
}

}  // namespace paceline::planner
