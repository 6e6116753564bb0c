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
          [this](Version version) { session_.evaluate(version); }) {}

bool Measuring::take(EvaluatorPeer peer, const std::string& job_toml, SteadyTime at) {
  if (!session_.take(peer, job_toml, at)) return false;
  show_boards();
  return true;
}

void Measuring::show_boards() {
  if (!servers_.all_started() || !session_.wants_boards()) return;
  session_.show(servers_.boards(host_, kEvaluatorSlot));
  evaluations_.evaluator_is_ready();
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
