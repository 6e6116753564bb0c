// The time and the cost of a plan, in closed form. Pure; it never changes after it is made, and a new one is
// made when the knowledge of the cluster changes.
//
// Stage s of a replica on device n, per micro-batch of u samples, forward and backward:
//   comp_s = overhead_n + (o(u) + Σ t_l(u))/φ_n, with t_l(u) = f_l + u·w_l or as it was measured, and the overhead o(u) of
//   a micro-batch that was measured (profile.h),
//   comm_s = 2·latency + 2·u·y/bandwidth  (the activation and its gradient).
// On several devices (m_s of them, which take micro-batches in turn) comp_s and comm_s are of the slowest of
// them and of their links. A replica of M = ⌈b/u⌉ micro-batches takes T = α + β·M, where α + β = Σ comp + Σ
// comm, the first micro-batch's way there and back, and β is what each further one adds:
//   β = max over runs i..j of neighbouring stages of (Σ_{i..j} comp + Σ_{i..j−1} comm) / Σ_{i..j} m.
// Our first version of JDMP's model was the largest comp or comm. That is the same if links are free. But
// under 1F1B a stage cannot run ahead of the next by more than its place allows, so the stages at both ends
// of a transfer wait for it: k devices in a row of stages have k micro-batches between them, and need the
// time of one whole pass for those k. timeline_test.cc compares this with the exact schedule: β is its slope
// in M, and T is at most a quarter above it (if the slowest stage comes first) and at most 1 % below. If
// stages are shared and links are slow, both may be up to 45 % too high: then more micro-batches are under
// way than there are devices. There the start of a few may also take up to 8 % more.
//
// In a live run the gradient is collected on the first device's host: T is longer by Σ (latency +
// P/bandwidth) over the devices on other hosts.
//
// Synchronizing: T_sync = max(max over devices of 2·(latency + P/bandwidth) of its link to the servers, 2·ΣP
// / what the servers take), with P the bytes of a stage's gradients, which are those of its trained weights:
// gradients go there and weights come back. On one host, if the servers' update was measured: 2·latency of the
// slowest link + the update's time · ΣP / P of the whole model. Batch time τ = max T + T_sync.
//
// Memory of a device: its stage's weights and gradients (the servers hold the optimizer's state) and, under
// 1F1B, the activations of as many micro-batches as it keeps at once (base/stage_turns.h). Weights that a
// layer shares with one of an earlier stage are on both, and so are their gradients. Costs are of
// one batch: money = Σ price·τ over the plan's devices, energy = Σ power·comp, traffic between sites =
// activations and gradients over such links, and what stages away from the servers' site push and pull.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/planner/data_assignment.h"
#include "paceline/decisions/planner/plan.h"
#include "paceline/decisions/planner/problem.h"
#include "paceline/decisions/planner/timeline.h"

namespace paceline::planner {

// The memory of a device, by what it is for. All in bytes.
struct StageMemory {
  static constexpr double kMost = 9e18;  // more than any device has, and still a number
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  double activations = 0;      // may be more than any number of bytes
  double working = 0;          // memory of the computed micro-batch beside what it keeps
  std::int64_t in_flight = 0;  // micro-batches that the activations are of
  std::int64_t total() const {
    const double bytes =
        static_cast<double>(weights) + static_cast<double>(gradients) + activations + working;
    return static_cast<std::int64_t>(std::min(bytes, kMost));
  }
};

// The properties of a replica, independent of its data: T = α + β·M, costs = Σ per_sample·b + per_ms·τ +
// fixed.
struct ReplicaTerms {
  ReplicaTime time;  // most_samples is 0 if memory does not hold the weights and one micro-batch
  Costs per_sample{};
  Costs per_ms{};
  Costs fixed{};
  double push_ms = 0;             // the slowest device's: gradients to the servers, weights back
  std::int64_t pushed_bytes = 0;  // weights of all devices
};

struct ReplicaForecast {
  std::vector<double> device_ms;    // comp: time of a full micro-batch
  std::vector<double> link_ms;      // comm: there and back; one fewer than stages
  std::vector<StageMemory> memory;  // indexed by device
  double alpha_ms = 0;
  double beta_ms = 0;
  std::int64_t micro_batches = 0;  // M
  double time_ms = 0;              // α + β·M; 0 without samples
};

struct Forecast {
  std::vector<ReplicaForecast> replicas;
  double sync_ms = 0;
  double batch_ms = 0;  // τ
  Costs costs{};
};

// α + β = Σ comp + Σ comm and β of the formula above, of stages on so many devices each. Requires: as many
// links as stages, less one, and as many widths.
ReplicaTime pipeline_time(const std::vector<double>& stage_ms, const std::vector<double>& link_ms,
                          const std::vector<std::size_t>& widths);

class CostModel {
 public:
  // Keeps a reference to the problem.
  explicit CostModel(const Problem& problem);

  const Problem& problem() const { return problem_; }
  // comp of layers [begin, end).
  double compute_ms(std::int32_t device, std::int32_t begin, std::int32_t end, std::int64_t u) const {
    const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), u);
    if (found == sizes_.end() || *found != u) return other_compute_ms(device, begin, end, u);
    const auto size = static_cast<std::size_t>(found - sizes_.begin());
    const double* until = &until_[row(device, size)];
    const std::vector<double>& per_pass = is_cut(begin, end) ? per_pass_cut_ : per_pass_;
    return per_pass[static_cast<std::size_t>(device) * sizes_.size() + size] + (until[end] - until[begin]);
  }
  // comm over a link; layer `cut` is the first of the second device.
  double transfer_ms(const Link& link, std::int32_t cut, std::int64_t u) const {
    return 2 * link.ms(static_cast<double>(u) * static_cast<double>(output_bytes(cut))) +
           link.sending_ms(static_cast<double>(returned_bytes(cut)));
  }
  double transfer_ms(std::int32_t from, std::int32_t to, std::int32_t cut, std::int64_t u) const {
    return transfer_ms(problem_.cluster.link(from, to), cut, u);
  }
  // The longest transfer between two stages in a row, over all pairs of devices that meet. The second stage
  // begins at `cut`.
  double transfer_ms(std::span<const std::int32_t> from, std::span<const std::int32_t> to, std::int32_t cut,
                     std::int64_t u) const;
  // The time of the slowest of these devices.
  double compute_ms(std::span<const std::int32_t> devices, std::int32_t begin, std::int32_t end,
                    std::int64_t u) const;
  std::int64_t gradient_bytes(std::int32_t begin, std::int32_t end) const {  // P
    return gradients_[static_cast<std::size_t>(end)] - gradients_[static_cast<std::size_t>(begin)];
  }
  // The memory of a stage that keeps `in_flight` micro-batches.
  StageMemory memory(std::int32_t begin, std::int32_t end, std::int64_t u, std::int64_t in_flight) const;
  std::int64_t memory_bytes(std::int32_t begin, std::int32_t end, std::int64_t u,
                            std::int64_t in_flight) const {
    return memory(begin, end, u, in_flight).total();
  }

  // The memory of the device whose turn is `turn` in this stage, if the replica gets this many micro-batches.
  StageMemory memory(const PlannedStage& stage, std::size_t turn, std::int64_t micro_batches,
                     std::int64_t u) const;
  std::int64_t memory_bytes(const PlannedStage& stage, std::size_t turn, std::int64_t micro_batches,
                            std::int64_t u) const {
    return memory(stage, turn, micro_batches, u).total();
  }

  ReplicaTerms terms(const PlannedReplica& replica, std::int64_t u) const;
  // T_sync of replicas that together push `pushed_bytes`, the slowest of them in `slowest_push_ms`.
  double sync_ms(double slowest_push_ms, std::int64_t pushed_bytes) const;
  Forecast forecast(const Plan& plan) const;
  // The costs of a batch that took `batch_ms`.
  Costs costs(const Plan& plan, double batch_ms) const;
  // The exact schedule's input of a replica of the plan.
  PipelineTimes timeline_input(const PlannedReplica& replica, std::int64_t u) const;
  // τ by the exact schedule instead of the closed form.
  double exact_batch_ms(const Plan& plan) const;
  // Checks that each replica covers the layers once, that devices are present and used once, that Σ b = B and
  // u ≤ B, and that memory is kept. The error names the violation.
  absl::Status check(const Plan& plan) const;

 private:
  static std::span<const std::int32_t> devices_of(const PlannedReplica& replica, const PlannedStage& stage) {
    return std::span(replica.devices).subspan(stage.first, stage.width);
  }
  void add_device(const PlannedReplica& replica, const PlannedStage& stage, std::size_t place, std::int64_t u,
                  ReplicaTerms& terms) const;
  double cross_site_share(std::span<const std::int32_t> from, std::span<const std::int32_t> to) const;
  double forward_share(std::int32_t device, std::int32_t begin, std::int32_t end) const;
  absl::Status check(const PlannedReplica& replica, std::int64_t u, std::vector<bool>& used) const;
  // Bytes of one sample that cross the cut before this layer.
  std::int64_t output_bytes(std::int32_t cut) const {
    return problem_.model.layers[static_cast<std::size_t>(cut) - 1].output_bytes;
  }
  std::int64_t returned_bytes(std::int32_t cut) const {
    return problem_.model.layers[static_cast<std::size_t>(cut) - 1].returned_bytes;
  }
  const Device& device_at(std::int32_t device) const {
    return problem_.cluster.devices[static_cast<std::size_t>(device)];
  }
  bool updates_measured() const { return problem_.cluster.on_one_host && problem_.model.update_ms > 0; }
  // The same of a size that is not among sizes_.
  double other_compute_ms(std::int32_t device, std::int32_t begin, std::int32_t end, std::int64_t u) const;
  double layer_ms(const Device& device, std::size_t layer, std::int64_t u) const;
  // The gradient of the weights that this layer has from an earlier one.
  std::int64_t tied_gradient_bytes(const LayerProfile& layer) const;
  // All such gradients of weights that layers [begin, end) have first.
  double tied_gradient_bytes(std::int32_t begin, std::int32_t end) const;
  bool is_cut(std::int32_t begin, std::int32_t end) const { return begin > 0 || end < problem_.layers(); }
  std::size_t row(std::int32_t device, std::size_t size) const {
    return (static_cast<std::size_t>(device) * sizes_.size() + size) * (problem_.model.layers.size() + 1);
  }

  const Problem& problem_;
  std::vector<std::int64_t> sizes_;  // the micro-batches to choose from, and 1
  std::vector<double> until_;        // Σ of the first layers' times; a row for each device and size
  // Times that no layer has, for each device and size: of the whole model, and of stages of a cut one.
  std::vector<double> per_pass_, per_pass_cut_;
  std::vector<std::int64_t> weights_;      // Σ of the first layers
  std::vector<std::int64_t> gradients_;    // Σ of the first layers
  std::vector<std::int64_t> activations_;  // Σ of the first layers
  std::vector<std::int64_t> fixed_;        // Σ of the first layers' activation_fixed_bytes
  bool has_working_ = false;
  std::vector<std::int32_t> tied_;  // layers with weights that an earlier one has too
};

}  // namespace paceline::planner
