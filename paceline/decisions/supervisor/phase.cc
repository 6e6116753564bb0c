#include "paceline/decisions/supervisor/phase.h"

#include <array>

#include "paceline/base/check.h"

namespace paceline::supervisor {

namespace {

constexpr std::array kTransitions{
    Transition<Phase>{Phase::kStarting, Phase::kGathering, "the coordinator listens, or is on another host"},
    Transition<Phase>{Phase::kStarting, Phase::kOver, "the coordinator cannot start"},
    Transition<Phase>{Phase::kGathering, Phase::kTraining,
                      "the coordinator says that the run trains, or a process is killed that has trained"},
    Transition<Phase>{Phase::kGathering, Phase::kEnding,
                      "the coordinator ends well, or a process hears of the end"},
    Transition<Phase>{Phase::kGathering, Phase::kOver,
                      "a process cannot start, the coordinator ends with an error, or nobody hears a stop"},
    Transition<Phase>{Phase::kTraining, Phase::kEnding,
                      "the coordinator ends well, or a process hears of the end"},
    Transition<Phase>{Phase::kTraining, Phase::kOver,
                      "the run fails, the coordinator is lost in vain, or the run goes on without this host"},
    Transition<Phase>{Phase::kEnding, Phase::kOver,
                      "all programs have ended, had their time for it, or are stopped at once"},
};

}  // namespace

std::span<const Transition<Phase>> transitions() { return kTransitions; }

bool may_follow(Phase from, Phase to) { return paceline::may_follow(transitions(), from, to); }

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kGathering:
      return "gathering";
    case Phase::kTraining:
      return "training";
    case Phase::kEnding:
      return "ending";
    case Phase::kOver:
      return "over";
  }
  PACELINE_CHECK(false, "there is no phase {}", static_cast<int>(phase));
}

std::string diagram() { return paceline::diagram(transitions(), Phase::kStarting, {Phase::kOver}); }

}  // namespace paceline::supervisor
