#include "paceline/decisions/planner/shared_stages.h"

#include <algorithm>
#include <limits>

namespace paceline::planner {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The best partition of the first d layers onto the first n devices; at(n, d).
struct Best {
  double largest = kNever;
  std::size_t width = 0;  // devices of the last stage
  std::size_t begin = 0;
};

class Partition {
 public:
  Partition(const CostModel& model, const std::vector<std::int32_t>& devices, std::int64_t u)
      : model_(model),
        devices_(devices),
        u_(u),
        micro_batches_((model.problem().batch + u - 1) / u),
        layers_(model.problem().model.layers.size()),
        best_((devices.size() + 1) * (layers_ + 1)) {}

  std::optional<PlannedReplica> run() {
    at(0, 0).largest = 0;
    // comp of layers on the last stage; index: begin · (layers + 1) + end
    std::vector<double> slowest((layers_ + 1) * (layers_ + 1));
    for (std::size_t d = 1; d <= devices_.size(); ++d) {
      std::fill(slowest.begin(), slowest.end(), 0);
      std::int64_t memory = Device::kNoLimit;
      for (std::size_t width = 1; width <= d; ++width) {
        const std::int32_t n = devices_[d - width];
        memory = std::min(memory, model_.problem().cluster.devices[static_cast<std::size_t>(n)].memory_bytes);
        for (std::size_t begin = 0; begin < layers_; ++begin) {
          for (std::size_t end = begin + 1; end <= layers_; ++end) {
            double& comp = slowest[begin * (layers_ + 1) + end];
            comp = std::max(comp, model_.compute_ms(n, static_cast<std::int32_t>(begin),
                                                    static_cast<std::int32_t>(end), u_));
          }
        }
        for (std::size_t end = 1; end <= layers_; ++end) try_stage(d, width, end, memory, slowest);
      }
    }
    if (at(devices_.size(), layers_).largest == kNever) return std::nullopt;
    PlannedReplica replica{devices_, {}, model_.problem().batch};
    for (std::size_t d = devices_.size(), end = layers_; d > 0;) {
      const Best& last = at(d, end);
      replica.cuts.insert(replica.cuts.begin(), last.width, static_cast<std::int32_t>(last.begin));
      d -= last.width;
      end = last.begin;
    }
    replica.cuts.erase(replica.cuts.begin());
    return replica;
  }

 private:
  Best& at(std::size_t devices, std::size_t layers) { return best_[devices * (layers_ + 1) + layers]; }

  // Tries the first d devices and `end` layers with the last stage on the last `width` devices, which have
  // `memory` each.
  void try_stage(std::size_t d, std::size_t width, std::size_t end, std::int64_t memory,
                 const std::vector<double>& slowest) {
    Best& best = at(d, end);
    const bool first = d == width;
    for (std::size_t begin = first ? 0 : end - 1;; --begin) {
      const double comp = slowest[begin * (layers_ + 1) + end] / static_cast<double>(width);
      // Further back the stage only grows.
      if (comp >= best.largest || need(d, width, begin, end) > memory) return;
      const bool alone = first && begin == 0 && end == layers_ && devices_.size() > 1;
      const double largest = std::max({at(d - width, begin).largest, comp, comm(d - width, begin)});
      if (largest < best.largest && !alone) best = {largest, width, begin};
      if (begin == 0) return;
    }
  }

  // The transfer into the stage that begins with this device.
  double comm(std::size_t device, std::size_t cut) const {
    if (device == 0 || cut == 0) return 0;
    return model_.transfer_ms(devices_[device - 1], devices_[device], static_cast<std::int32_t>(cut), u_);
  }
  // Memory of each device, as far as it can be known before the stages behind are: they keep one micro-batch
  // a device at least.
  std::int64_t need(std::size_t d, std::size_t width, std::size_t begin, std::size_t end) const {
    const std::size_t behind = devices_.size() - d;
    const PlannedStage stage{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), d - width,
                             width, static_cast<std::int64_t>(1 + (behind + width - 1) / width)};
    return model_.memory_bytes(stage, 0, micro_batches_, u_);
  }

  const CostModel& model_;
  const std::vector<std::int32_t>& devices_;
  const std::int64_t u_;
  const std::int64_t micro_batches_;
  const std::size_t layers_;
  std::vector<Best> best_;  // indexed by devices and layers
};

}  // namespace

std::optional<PlannedReplica> shared_stages(const CostModel& model, const std::vector<std::int32_t>& devices,
                                            std::int64_t u) {
  if (devices.size() < 2 || model.problem().layers() < 2) return std::nullopt;
  return Partition(model, devices, u).run();
}

}  // namespace paceline::planner
