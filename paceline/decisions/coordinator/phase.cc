#include "paceline/decisions/coordinator/phase.h"

#include <array>

#include "paceline/base/check.h"

namespace paceline::coordinator {

namespace {

constexpr std::array kTransitions{
    Transition<Phase>{Phase::kStarting, Phase::kTraining, "as many replicas joined as were planned"},
    Transition<Phase>{Phase::kStarting, Phase::kSavingCopies,
                      "the servers that came still have a newer version"},
    Transition<Phase>{Phase::kStarting, Phase::kFinishing, "a stop was asked for"},
    Transition<Phase>{Phase::kStarting, Phase::kDisconnecting,
                      "an error that every other attempt would have too"},
    Transition<Phase>{Phase::kStarting, Phase::kWentBack,
                      "a server is lost, or a host or all replicas stay away"},
    Transition<Phase>{Phase::kTraining, Phase::kSavingCopies, "a server is lost, and there are copies"},
    Transition<Phase>{Phase::kTraining, Phase::kFinishing,
                      "all samples are committed, or a stop was asked for"},
    Transition<Phase>{Phase::kTraining, Phase::kDisconnecting,
                      "an error that every other attempt would have too"},
    Transition<Phase>{Phase::kTraining, Phase::kWentBack, "a server is lost, or all replicas stay away"},
    Transition<Phase>{Phase::kSavingCopies, Phase::kDisconnecting,
                      "it is written and a stop was asked for, or it is lost"},
    Transition<Phase>{Phase::kSavingCopies, Phase::kWentBack, "it is written, or no copy is left"},
    Transition<Phase>{Phase::kFinishing, Phase::kSavingCopies, "a server is lost, and there are copies"},
    Transition<Phase>{Phase::kFinishing, Phase::kDisconnecting, "all is measured and saved, or cannot be"},
    Transition<Phase>{Phase::kFinishing, Phase::kWentBack, "a server is lost"},
    Transition<Phase>{Phase::kDisconnecting, Phase::kOver, "all are gone, or had some seconds for it"},
};

}  // namespace

std::span<const Transition<Phase>> transitions() { return kTransitions; }

bool may_follow(Phase from, Phase to) { return paceline::may_follow(transitions(), from, to); }

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kTraining:
      return "training";
    case Phase::kSavingCopies:
      return "saving_copies";
    case Phase::kFinishing:
      return "finishing";
    case Phase::kDisconnecting:
      return "disconnecting";
    case Phase::kWentBack:
      return "went_back";
    case Phase::kOver:
      return "over";
  }
  PACELINE_CHECK(false, "there is no phase {}", static_cast<int>(phase));
}

std::string diagram() {
  return paceline::diagram(transitions(), Phase::kStarting, {Phase::kWentBack, Phase::kOver});
}

}  // namespace paceline::coordinator
