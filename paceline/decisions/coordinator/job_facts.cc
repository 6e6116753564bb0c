#include "paceline/decisions/coordinator/job_facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/printable.h"
#include "paceline/base/status_macros.h"

namespace paceline::coordinator {

namespace {

constexpr char kSameData[] =
    "copy one host's files to all hosts, with the same names, and let the program read the same ones in the "
    "same order everywhere";

std::string versions_of(const Cuts& cuts) {
  return cuts.libraries.empty() ? "" : fmt::format(" ({})", printable(cuts.libraries));
}

}  // namespace

absl::Status JobFacts::agrees(const std::string& worker, HostRank host,
                              const WorkerAttached& attached) const {
  if (attached.dataset_size != first_.dataset_size) {
    return absl::InvalidArgumentError(fmt::format("{} has a data set of {} samples, the others one of {}; {}",
                                                  worker, attached.dataset_size, first_.dataset_size,
                                                  kSameData));
  }
  if (!(attached.layout == first_.layout))
    return absl::InvalidArgumentError(
        fmt::format("{} built another model than the others; run the same program with the same settings and "
                    "the same version of "
                    "its libraries on every host",
                    worker));
  const std::string& known = first_.data_digest;
  if (!known.empty() && !attached.data_digest.empty() && attached.data_digest != known) {
    return absl::InvalidArgumentError(
        fmt::format("{} has other data than the others: its digest is '{}', theirs '{}'; {}", worker,
                    printable(attached.data_digest), printable(known), kSameData));
  }
  PACELINE_RETURN_IF_ERROR(cuts_agree(worker, host, attached));
  PACELINE_RETURN_IF_ERROR(states_agree(worker, attached));
  return frozen_agree(worker, attached);
}

// A role says the cuts in numbers of units, which each worker counts by itself.
absl::Status JobFacts::cuts_agree(const std::string& worker, HostRank host,
                                  const WorkerAttached& attached) const {
  if (!first_.cuts || !attached.cuts || attached.cuts->digest == first_.cuts->digest) return absl::OkStatus();
  const std::string here = versions_of(*attached.cuts), there = versions_of(*first_.cuts);
  return absl::InvalidArgumentError(fmt::format(
      "{} on host {}{} finds other places to cut the model than {} on host {}{}; {}", worker, host, here,
      worker_, host_, there,
      here != there || here.empty()
          ? "install the same versions of PyTorch and of its libraries on every host"
          : "the program has to call the same blocks with the same kinds of values on every host"));
}

absl::Status JobFacts::states_agree(const std::string& worker, const WorkerAttached& attached) const {
  if (!first_.first_state || !attached.first_state || *attached.first_state == *first_.first_state)
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} {} the others; before join(), load the same checkpoint into the optimizer in every worker, "
      "whatever its host",
      worker,
      *attached.first_state == 0 ? "has an optimizer without a state, unlike"
      : *first_.first_state == 0 ? "has an optimizer with a state, unlike"
                                 : "has another state of its optimizer than"));
}

absl::Status JobFacts::frozen_agree(const std::string& worker, const WorkerAttached& attached) const {
  const auto& known = first_.frozen;
  const bool same_names =
      std::equal(known.begin(), known.end(), attached.frozen.begin(), attached.frozen.end(),
                 [](const auto& one, const auto& other) { return one.name == other.name; });
  if (!same_names)
    return absl::InvalidArgumentError(
        fmt::format("{} froze other tensors of the model than the others", worker));
  std::string first;
  int others = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const std::string &here = attached.frozen[i].digest, &there = known[i].digest;
    if (here.empty() || there.empty() || here == there) continue;
    if (others++ == 0) first = printable(known[i].name);
  }
  if (others == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} has other values of '{}'{} than the others, and it is frozen: before join(), load the same file in "
      "every worker, or seed the model (torch.manual_seed) before you build it; or give all of them one "
      "file with --set model.weights=FILE",
      worker, first, others > 1 ? fmt::format(" and {} more tensors", others - 1) : ""));
}

bool JobFacts::other_weights(HostRank host, const WorkerAttached& attached) const {
  const bool known = first_.first_weights && attached.first_weights;
  return known && host != host_ && *attached.first_weights != *first_.first_weights;
}

std::string JobFacts::first() const { return fmt::format("{} on host {}", worker_, host_); }

std::vector<std::string> JobFacts::other_constants(const WorkerAttached& attached) const {
  const auto& known = first_.constants;
  std::vector<std::string> others;
  std::size_t constant = 0;
  for (const TensorSpec& tensor : attached.layout.tensors()) {
    if (tensor.kind != TensorKind::kConstant) continue;
    const bool comparable = constant < known.size() && constant < attached.constants.size();
    if (comparable && known[constant] != attached.constants[constant])
      others.push_back(printable(tensor.name));
    ++constant;
  }
  return others;
}

}  // namespace paceline::coordinator
