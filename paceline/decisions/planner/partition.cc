#include "paceline/decisions/planner/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::planner {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A stage to be cut, and the time of its parts. Equal devices and links are looked at once.
struct StageToCut {
  PlannedStage stage;                 // without its layers
  std::vector<std::int32_t> devices;  // one of each kind that computes alike
  struct Memory {
    std::int64_t kept;  // micro-batches at once
    std::int64_t bytes;
  };
  // one entry for each device with less memory than all before it; no later device keeps more
  std::vector<Memory> memory;
  // before the stage, indexed by the layer at which it begins; all 0 for the first stage
  std::vector<double> comm;
};

bool compute_alike(const Device& a, const Device& b) {
  return a.speed == b.speed && a.overhead_ms == b.overhead_ms && a.layer_ms == b.layer_ms;
}

// The pipeline to be cut.
class Pipeline {
 public:
  Pipeline(const CostModel& model, const PlannedReplica& replica, std::int64_t u, std::int64_t micro_batches)
      : model_(model), replica_(replica), u_(u), micro_batches_(micro_batches) {
    const std::vector<PlannedStage> stages = stages_of(replica, model.problem().layers());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageToCut& one = stages_.emplace_back();
      one.stage = stages[s];
      for (std::size_t turn = 0; turn < one.stage.width; ++turn) add_device(turn, one);
      one.comm.resize(layers());
      if (s > 0) add_links(stages[s - 1], one);
    }
  }

  std::size_t stages() const { return stages_.size(); }
  std::size_t layers() const { return model_.problem().model.layers.size(); }
  // Whether it can be cut at all, as far as memory does not matter.
  bool possible() const { return stages() <= layers() && (stages() > 1 || replica_.devices.size() == 1); }
  double width(std::size_t s) const { return static_cast<double>(stages_[s].stage.width); }
  double comp(std::size_t s, std::size_t begin, std::size_t end) const {
    double most = 0;
    for (const std::int32_t n : stages_[s].devices) {
      most = std::max(
          most, model_.compute_ms(n, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), u_));
    }
    return most;
  }
  // The transfer before stage s; there is none before the first stage.
  double comm(std::size_t s, std::size_t cut) const { return stages_[s].comm[cut]; }
  // The share that stage s adds to the time of each micro-batch.
  double comp_share(std::size_t s, std::size_t begin, std::size_t end) const {
    return comp(s, begin, end) / width(s);
  }
  double comm_share(std::size_t s, std::size_t cut) const {
    return s == 0 ? 0 : comm(s, cut) / std::min(width(s - 1), width(s));
  }
  bool fits(std::size_t s, std::size_t begin, std::size_t end) const {
    for (const StageToCut::Memory& memory : stages_[s].memory) {
      if (model_.memory_bytes(static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), u_,
                              memory.kept) > memory.bytes)
        return false;
    }
    return true;
  }
  // The stages before and after s need a layer each: how many layers the first s + 1 stages may have.
  std::size_t least_end(std::size_t s) const { return s + 1; }
  std::size_t most_end(std::size_t s) const { return layers() - (stages() - 1 - s); }

  // The cuts of the devices, from the layers at which each stage but the first begins.
  Cuts by_device(const std::vector<std::size_t>& begins) const {
    Cuts cuts;
    for (std::size_t s = 0; s < stages(); ++s) {
      cuts.insert(cuts.end(), stages_[s].stage.width, s == 0 ? 0 : static_cast<std::int32_t>(begins[s - 1]));
    }
    cuts.erase(cuts.begin());
    return cuts;
  }
  ReplicaTime time(const Cuts& cuts) const { return model_.terms({replica_.devices, cuts, 0}, u_).time; }

 private:
  const Device& device_at(std::int32_t n) const {
    return model_.problem().cluster.devices[static_cast<std::size_t>(n)];
  }
  void add_device(std::size_t turn, StageToCut& one) const {
    const std::int32_t n = replica_.devices[one.stage.first + turn];
    const Device& device = device_at(n);
    const bool known = std::any_of(one.devices.begin(), one.devices.end(), [&](std::int32_t other) {
      return compute_alike(device, device_at(other));
    });
    if (!known) one.devices.push_back(n);
    if (device.memory_bytes >= (one.memory.empty() ? Device::kNoLimit : one.memory.back().bytes)) return;
    one.memory.push_back(
        {std::min(one.stage.kept, in_turn(micro_batches_, turn, one.stage.width)), device.memory_bytes});
  }
  void add_links(const PlannedStage& before, StageToCut& one) const {
    std::vector<Link> links;
    for_each_meeting(before.width, one.stage.width, [&](std::size_t from, std::size_t to) {
      const Link& link = model_.problem().cluster.link(replica_.devices[before.first + from],
                                                       replica_.devices[one.stage.first + to]);
      const bool known = std::any_of(links.begin(), links.end(), [&](const Link& other) {
        return other.latency_ms == link.latency_ms && other.bytes_per_ms == link.bytes_per_ms;
      });
      if (!known) links.push_back(link);
    });
    for (std::size_t cut = 1; cut < layers(); ++cut) {
      for (const Link& link : links)
        one.comm[cut] = std::max(one.comm[cut], model_.transfer_ms(link, static_cast<std::int32_t>(cut), u_));
    }
  }

  const CostModel& model_;
  const PlannedReplica& replica_;
  const std::int64_t u_;
  const std::int64_t micro_batches_;
  std::vector<StageToCut> stages_;
};

// F of the header, over all ends of every stage. With `with_links` false links count as free, and the last
// value is a lower bound of every β.
struct Balanced {
  double largest = kInfinite;
  std::vector<std::size_t> begins;  // one for each stage but the first
};

Balanced balance(const Pipeline& pipe, bool with_links) {
  const std::size_t stages = pipe.stages(), layers = pipe.layers();
  std::vector<double> least(stages * (layers + 1), kInfinite);
  std::vector<std::size_t> from(stages * (layers + 1));
  const auto at = [&](std::size_t s, std::size_t i) { return s * (layers + 1) + i; };
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t end = pipe.least_end(s); end <= pipe.most_end(s); ++end) {
      double& best = least[at(s, end)];
      for (std::size_t begin = s == 0 ? 0 : end - 1;; --begin) {
        const double comp = pipe.comp_share(s, begin, end);
        // Further back the stage only grows.
        if (comp >= best || !pipe.fits(s, begin, end)) break;
        const double before = s == 0 ? 0 : least[at(s - 1, begin)];
        const double largest = std::max({before, comp, with_links ? pipe.comm_share(s, begin) : 0});
        if (largest < best) {
          best = largest;
          from[at(s, end)] = begin;
        }
        if (begin <= s) break;
      }
    }
  }
  Balanced found{least[at(stages - 1, layers)], std::vector<std::size_t>(stages - 1)};
  if (found.largest == kInfinite) return found;
  for (std::size_t s = stages - 1, end = layers; s > 0; --s) {
    end = from[at(s, end)];
    found.begins[s - 1] = end;
  }
  return found;
}

// A way to cut some first layers into some first stages.
struct Label {
  double sum = 0;          // Σ comp + Σ comm
  double run = 0;          // K of the header
  std::size_t cut = 0;     // the layer at which its last stage begins
  std::size_t before = 0;  // the label of the stages before, at that layer
};

void insert(std::vector<Label>& labels, const Label& label) {
  for (const Label& other : labels) {
    if (other.sum <= label.sum && other.run <= label.run) return;
  }
  std::erase_if(labels, [&](const Label& other) { return label.sum <= other.sum && label.run <= other.run; });
  labels.push_back(label);
}

struct Cheapest {
  double sum = kInfinite;
  std::vector<std::size_t> begins;  // one for each stage but the first
};

// The least Σ comp + Σ comm with β ≤ cap.
Cheapest cheapest_under(const Pipeline& pipe, double cap) {
  const std::size_t stages = pipe.stages(), layers = pipe.layers();
  std::vector<std::vector<Label>> labels(stages * (layers + 1));
  const auto at = [&](std::size_t s, std::size_t i) { return s * (layers + 1) + i; };
  const auto extend = [&](std::size_t s, std::size_t begin, double comp, const Label& before,
                          std::size_t index, std::vector<Label>& into) {
    const double comm = pipe.comm(s, begin);
    // If there is no cap, every run is short enough.
    const double run =
        cap == kInfinite ? 0 : (s == 0 ? 0 : std::max(before.run + comm, 0.0)) + comp - cap * pipe.width(s);
    if (run <= 0) insert(into, {before.sum + comm + comp, run, begin, index});
  };
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t end = pipe.least_end(s); end <= pipe.most_end(s); ++end) {
      std::vector<Label>& into = labels[at(s, end)];
      for (std::size_t begin = s == 0 ? 0 : end - 1;; --begin) {
        const double comp = pipe.comp(s, begin, end);
        if (comp > cap * pipe.width(s) || !pipe.fits(s, begin, end)) break;
        if (s == 0) {
          extend(s, begin, comp, {}, 0, into);
          break;
        }
        const std::vector<Label>& before = labels[at(s - 1, begin)];
        for (std::size_t k = 0; k < before.size(); ++k) extend(s, begin, comp, before[k], k, into);
        if (begin <= s) break;
      }
    }
  }
  const std::vector<Label>& ends = labels[at(stages - 1, layers)];
  const auto best = std::min_element(ends.begin(), ends.end(),
                                     [](const Label& a, const Label& b) { return a.sum < b.sum; });
  if (best == ends.end()) return {};
  Cheapest found{best->sum, std::vector<std::size_t>(stages - 1)};
  const Label* label = &*best;
  for (std::size_t s = stages - 1; s > 0; --s) {
    found.begins[s - 1] = label->cut;
    label = &labels[at(s - 1, label->cut)][label->before];
  }
  return found;
}

}  // namespace

std::optional<Cuts> balanced_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                                  std::int64_t micro_batches) {
  const Pipeline pipe(model, replica, u, micro_batches);
  if (!pipe.possible()) return std::nullopt;
  const Balanced found = balance(pipe, true);
  if (found.largest == kInfinite) return std::nullopt;
  return pipe.by_device(found.begins);
}

std::optional<Cuts> best_cuts(const CostModel& model, const PlannedReplica& replica, std::int64_t u,
                              std::int64_t micro_batches) {
  PACELINE_CHECK(!replica.devices.empty() && micro_batches >= 1, "{} devices, {} micro-batches",
                 replica.devices.size(), micro_batches);
  const Pipeline pipe(model, replica, u, micro_batches);
  if (!pipe.possible()) return std::nullopt;
  const double least_beta = balance(pipe, false).largest;
  if (least_beta == kInfinite) return std::nullopt;
  const auto more = static_cast<double>(micro_batches - 1);
  double best = kInfinite, cap = kInfinite;
  Cuts cuts;
  for (;;) {
    const Cheapest found = cheapest_under(pipe, cap);
    if (found.sum + more * least_beta >= best) break;
    Cuts by_device = pipe.by_device(found.begins);
    const ReplicaTime time = pipe.time(by_device);
    if (found.sum + more * time.beta_ms < best) {
      best = found.sum + more * time.beta_ms;
      cuts = std::move(by_device);
    }
    cap = time.beta_ms * (1 - 1e-9);
  }
  return cuts;
}

}  // namespace paceline::planner
