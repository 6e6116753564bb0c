#include "paceline/decisions/coordinator/measuring.h"

#include "paceline/decisions/coordinator/reader_slots.h"

namespace paceline::coordinator {

Measuring::Measuring(ServerFleet& servers, Outbox& out, HostPlace host)
    : servers_(servers),
      out_(out),
      host_(host),
      session_(out),
      evaluations_(
          servers.size(), [this](const auto& order) { servers_.tell(order); },
          [this](Version version) { session_.evaluate(version); }, [this] { return reads_host(); }) {}

void Measuring::prepared(const EvaluatorPrepared& message) {
  session_.prepared(message.card);
  show_boards();
}

bool Measuring::reads_host() const {
  const std::optional<std::string>& card = session_.card();
  return card ? !servers_.seen_from(*card) : servers_.any_in_both();
}

void Measuring::show_boards() {
  if (!servers_.all_started() || !session_.wants_boards()) return;
  // The evaluator reads all shards in one memory.
  const bool in_host = reads_host();
  session_.show(
      servers_.boards(host_, kEvaluatorSlot, in_host ? std::optional<std::string>("") : std::nullopt));
  evaluations_.evaluator_is_ready(in_host);
}

void Measuring::leave(SteadyTime at) {
  session_.leave(at);
  evaluations_.evaluator_is_gone();
}

void Measuring::give_up_waiting(SteadyTime since, SteadyTime at) {
  if (!session_.missed(since, at)) return;
  if (waiting() > 0)
    out_.tell_and_remember("no evaluator was here in time; what is not measured yet stays so");
  evaluations_.give_up();
}

}  // namespace paceline::coordinator
