#include "paceline/parameters/ps/parameter_groups.h"

#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace paceline::ps {

namespace {

class Names {
 public:
  explicit Names(std::span<const ParameterGroup> groups) : groups_(groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (const std::string& name : groups[i].tensors) by_name_[name].push_back(i);
    }
  }

  // All groups that the tensor is in: one at most where all is well.
  std::vector<std::size_t> of(const std::string& tensor) const {
    std::vector<std::size_t> found;
    if (const auto named = by_name_.find(tensor); named != by_name_.end()) found = named->second;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_[i].match.empty() && matches_glob(groups_[i].match, tensor)) found.push_back(i);
    }
    return found;
  }

 private:
  std::span<const ParameterGroup> groups_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
};

template <class... Args>
absl::Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError("optimizer.group: " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

// Goes back to the last star alone: an earlier one could only take what that one can take as well.
bool matches_glob(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;  // behind it, and where it ends for now
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star.emplace(++g, t);
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g, ++t;
    } else if (star) {
      g = star->first;
      t = ++star->second;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

OptimizerConfig optimizer_of(const OptimizerConfig& optimizer, const ParameterGroup& group) {
  OptimizerConfig own = optimizer;
  own.rate *= group.rate;
  own.steps_behind = group.steps_behind;
  own.momentum = group.momentum.value_or(own.momentum);
  own.beta1 = group.beta1.value_or(own.beta1);
  own.beta2 = group.beta2.value_or(own.beta2);
  own.epsilon = group.epsilon.value_or(own.epsilon);
  own.weight_decay = group.weight_decay.value_or(own.weight_decay);
  return own;
}

std::vector<std::optional<std::size_t>> groups_in(const Layout& part,
                                                  std::span<const ParameterGroup> groups) {
  std::vector<std::optional<std::size_t>> all(part.tensors().size());
  if (groups.empty()) return all;
  const Names names(groups);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& name = part.tensors()[i].name;
    std::vector<std::size_t> found = names.of(name);
    if (found.empty()) found = names.of(piece_named(name).tensor);
    if (!found.empty()) all[i] = found.front();
  }
  return all;
}

absl::Status check_groups(const Layout& layout, std::span<const ParameterGroup> groups) {
  if (groups.empty()) return absl::OkStatus();
  const Names names(groups);
  std::unordered_map<std::string, bool> there;
  std::vector<bool> fits(groups.size(), false);
  for (const TensorSpec& tensor : layout.tensors()) {
    there[tensor.name] = true;
    const std::vector<std::size_t> found = names.of(tensor.name);
    if (found.size() > 1)
      return wrong("tensor '{}' is named twice; write it in one group, once", tensor.name);
    for (const std::size_t group : found) fits[group] = true;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& name : groups[i].tensors) {
      if (!there.contains(name)) return wrong("the model has no tensor '{}'", name);
    }
    if (!fits[i]) return wrong("no tensor of the model matches '{}'", groups[i].match);
  }
  return absl::OkStatus();
}

}  // namespace paceline::ps
