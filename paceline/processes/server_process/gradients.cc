#include "paceline/processes/server_process/gradients.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::server_process {

absl::Status Gradients::map(std::int32_t replica, const std::string& path, const std::string& card) {
  PACELINE_ASSIGN_OR_RETURN(auto reader, memory::GradientReader::open(path, floats_));
  if (card_ != nullptr) PACELINE_RETURN_IF_ERROR(card_->gradient(replica).status());
  readers_.insert_or_assign(replica, std::move(reader));
  if (card_ != nullptr && card_->uuid() != card) by_host_.insert(replica);
  return absl::OkStatus();
}

void Gradients::unmap(std::int32_t replica) {
  by_host_.erase(replica);
  if (readers_.erase(replica) > 0 && card_ != nullptr) card_->free_gradient(replica);
}

absl::StatusOr<ps::GradientPlace> Gradients::place(std::int32_t replica, Clock clock) {
  const auto found = readers_.find(replica);
  missing_ = replica;
  if (found == readers_.end())
    return absl::InternalError(fmt::format("the gradient of replica {} is not here", replica));
  if (card_ != nullptr && !by_host_.contains(replica)) {
    PACELINE_RETURN_IF_ERROR(found->second.check(clock));
    missing_.reset();
    return card_->gradient(replica);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto gradient, found->second.gradient(clock));
  missing_.reset();
  const ps::GradientPlace here = ps::host_gradient(gradient.data());
  if (card_ != nullptr) return card_->copy_gradient(replica, here);
  return here;
}

const float* Gradients::place_if_here(std::int32_t replica, Clock clock) const {
  const auto found = readers_.find(replica);
  if (found == readers_.end()) return nullptr;
  const auto gradient = found->second.gradient(clock);
  return gradient.ok() ? gradient->data() : nullptr;
}

}  // namespace paceline::server_process
