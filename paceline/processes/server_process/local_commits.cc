#include "paceline/processes/server_process/local_commits.h"

#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::server_process {

absl::Status LocalCommits::make(const wire::Apply& order) {
  ps::Update update = update_of(order);
  std::vector<const memory::GradientReader*> readers;
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const ps::GradientPlace whole,
                              gradients_.place(member.replica(), Clock(member.clock())));
    const ps::GradientPlace part = whole.from(shards_.own_offset());
    update.members.push_back({part.wide, member.weight(), member.share(), part.narrow});
    readers.push_back(&gradients_.reader(member.replica()));
  }
  if (order.group() && !readers.empty())
    update.group.emplace(update.version, std::move(readers), gradients_.floats(), shards_.own_offset());
  PACELINE_RETURN_IF_ERROR(shards_.own().apply(update));
  return show_to_host();
}

absl::Status LocalCommits::map_gradient(const wire::MapGradient& order) {
  PACELINE_RETURN_IF_ERROR(gradients_.map(order.replica(), order.path(), order.card()));
  return show_to_host();
}

absl::Status LocalCommits::keep_in_host(Version version) {
  return mirror_ ? mirror_->keep(shards_.own(), version) : absl::OkStatus();
}

absl::Status LocalCommits::show_to_host() {
  if (!mirror_ || !gradients_.any_by_host()) return absl::OkStatus();
  return mirror_->follow(shards_.own());
}

}  // namespace paceline::server_process
