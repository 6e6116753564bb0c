#include "paceline/computing/train/profile.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/nn/modules/container/sequential.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/train/catch_torch.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kSamples = 4;
constexpr int kRuns = 3;

// Adds up what is allocated and not freed on this thread while it is set.
class HeldBytes final : public c10::MemoryReportingInfoBase {
 public:
  // libtorch 1.13 has the first of the two, 2 the second.
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) {
    held_ += bytes;
  }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) { held_ += bytes; }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t held() const { return held_; }

 private:
  std::int64_t held_ = 0;
};

// One run of one unit.
struct UnitRun {
  double forward_ms = 0;
  double backward_ms = 0;
  std::int64_t kept_bytes = 0;
  torch::Tensor output;
};

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

UnitRun run_unit(torch::nn::AnyModule& unit, torch::Tensor input) {
  UnitRun run;
  // The first unit may be given bytes, which have no gradient.
  if (input.is_floating_point()) input = input.detach().requires_grad_();
  const auto held = std::make_shared<HeldBytes>();
  const auto start = steady_clock::now();
  {
    const c10::DebugInfoGuard watched(c10::DebugInfoKind::PROFILER_STATE, held);
    run.output = unit.forward(input);
  }
  run.forward_ms = ms_since(start);
  run.kept_bytes = std::max(held->held(), static_cast<std::int64_t>(0));
  if (!run.output.requires_grad()) return run;
  const torch::Tensor gradient = torch::ones_like(run.output);
  const auto back = steady_clock::now();
  run.output.backward(gradient);
  run.backward_ms = ms_since(back);
  return run;
}

std::int64_t parameter_bytes(const torch::nn::AnyModule& unit) {
  std::int64_t bytes = 0;
  for (const torch::Tensor& parameter : unit.ptr()->parameters())
    bytes += parameter.numel() * parameter.element_size();
  return bytes;
}

torch::Tensor noise(const std::vector<std::int64_t>& sample_shape, std::int64_t classes) {
  std::vector<std::int64_t> shape = {kSamples};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  // A sample of one dimension is a text, whose classes are the bytes.
  return sample_shape.size() == 1 ? torch::randint(classes, shape, torch::kInt64) : torch::rand(shape);
}

planner::LayerProfile profile_unit(torch::nn::AnyModule& unit, const std::string& name,
                                   torch::Tensor& passing) {
  UnitRun best{std::numeric_limits<double>::infinity(), 0, 0, {}};
  for (int i = 0; i < kRuns; ++i) {
    UnitRun run = run_unit(unit, passing);
    if (run.forward_ms + run.backward_ms < best.forward_ms + best.backward_ms) best = std::move(run);
  }
  passing = best.output.detach();
  planner::LayerProfile layer;
  layer.name = name;
  const double both = std::max(best.forward_ms + best.backward_ms, 1e-6);
  layer.work_ms = both / kSamples;
  layer.forward_share = std::clamp(best.forward_ms / both, 0.01, 0.99);
  layer.output_bytes = passing.numel() * passing.element_size() / kSamples;
  layer.activation_bytes = best.kept_bytes / kSamples;
  layer.parameter_bytes = parameter_bytes(unit);
  return layer;
}

}  // namespace

absl::StatusOr<planner::ModelProfile> profile_model(const config::ModelConfig& model,
                                                    const std::vector<std::int64_t>& sample_shape,
                                                    std::int64_t classes) {
  constexpr std::uint64_t kSeed = 1;
  const Model* kind = find_model(model.name);
  if (kind != nullptr && (sample_shape.empty() || classes == 0)) {
    const Samples usual = kind->usual(model);
    return profile_model(model, sample_shape.empty() ? usual.shape : sample_shape,
                         classes == 0 ? usual.classes : classes);
  }
  PACELINE_ASSIGN_OR_RETURN(torch::nn::Sequential units, make_model(model, sample_shape, classes, kSeed));
  return catch_torch("measuring model " + model.name, [&]() -> absl::StatusOr<planner::ModelProfile> {
    planner::ModelProfile profile;
    torch::Tensor passing = noise(sample_shape, classes);
    const auto children = units->named_children();
    std::size_t index = 0;
    for (auto unit = units->begin(); unit != units->end(); ++unit, ++index)
      profile.layers.push_back(profile_unit(*unit, children[index].key(), passing));
    return profile;
  });
}

}  // namespace paceline::train
