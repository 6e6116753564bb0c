// Tensors with optimizer settings of their own: usually no weight decay for norms and biases, or another rate
// for a head. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/parameters/ps/layout.h"
#include "paceline/parameters/ps/update_rule.h"

namespace paceline::ps {

struct ParameterGroup {
  std::vector<std::string> tensors = {};  // names of its tensors
  std::string match = {};   // or a glob over all names: * is any text, ? one character; empty: none
  double rate = 1;          // multiplies the learning rate
  double steps_behind = 0;  // OptimizerConfig has the same
  // Instead of the optimizer's, where they are given.
  std::optional<double> momentum = {}, beta1 = {}, beta2 = {}, epsilon = {}, weight_decay = {};

  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

// Whether the whole of `text` is what the glob says.
bool matches_glob(std::string_view glob, std::string_view text);

// The optimizer as the group has it.
OptimizerConfig optimizer_of(const OptimizerConfig& optimizer, const ParameterGroup& group);

// The group of each tensor of a part of the model, by its place in `groups`; nothing: of none. A piece of a
// tensor is of its tensor's group. Requires: check_groups() of the whole model is OK.
std::vector<std::optional<std::size_t>> groups_in(const Layout& part, std::span<const ParameterGroup> groups);

// Errors: InvalidArgument of one line when a group names a tensor that the model does not have, its glob fits
// none, or a tensor is in two groups. `layout`: of the whole model.
absl::Status check_groups(const Layout& layout, std::span<const ParameterGroup> groups);

}  // namespace paceline::ps
