#include "paceline/processes/rpc/run_notes.h"

#include <algorithm>
#include <cstddef>
#include <random>

namespace paceline::rpc {

RunNotes::RunNotes() {
  std::random_device random;
  process_ = std::uniform_int_distribution<std::uint64_t>(1)(random);
}

void RunNotes::answer(const wire::StatusRequest& request, wire::StatusReply& reply) const {
  // A program of another version may name no process.
  const bool of_this = request.notes_of() == 0 || request.notes_of() == process_;
  const std::int32_t seen = of_this ? std::max(0, request.notes_seen()) : 0;
  for (auto i = static_cast<std::size_t>(seen); i < lines_.size(); ++i) reply.add_notes(lines_[i]);
  reply.set_notes_of(process_);
}

void SeenNotes::ask(wire::StatusRequest& request) const {
  request.set_notes_seen(seen_);
  request.set_notes_of(process_);
}

std::vector<std::string> SeenNotes::take(const wire::StatusReply& reply) {
  if (reply.notes_of() != process_) seen_ = 0;
  process_ = reply.notes_of();
  seen_ += reply.notes_size();
  return {reply.notes().begin(), reply.notes().end()};
}

}  // namespace paceline::rpc
