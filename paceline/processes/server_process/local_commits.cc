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
  return shards_.own().apply(update);
}

}  // namespace paceline::server_process
