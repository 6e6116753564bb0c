#include "paceline/processes/coordinator/phase.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::coordinator {

namespace {

constexpr std::array kTransitions{
    Transition{Phase::kStarting, Phase::kTraining, "as many replicas joined as were planned"},
    Transition{Phase::kStarting, Phase::kSavingCopies, "the servers that came still have a newer version"},
    Transition{Phase::kStarting, Phase::kFinishing, "a stop was asked for"},
    Transition{Phase::kStarting, Phase::kDisconnecting, "an error that every other attempt would have too"},
    Transition{Phase::kStarting, Phase::kWentBack, "a server is lost, or a host or all replicas stay away"},
    Transition{Phase::kTraining, Phase::kSavingCopies, "a server is lost, and there are copies"},
    Transition{Phase::kTraining, Phase::kFinishing, "all samples are committed, or a stop was asked for"},
    Transition{Phase::kTraining, Phase::kDisconnecting, "an error that every other attempt would have too"},
    Transition{Phase::kTraining, Phase::kWentBack, "a server is lost, or all replicas stay away"},
    Transition{Phase::kSavingCopies, Phase::kDisconnecting,
               "it is written and a stop was asked for, or it is lost"},
    Transition{Phase::kSavingCopies, Phase::kWentBack, "it is written, or no copy is left"},
    Transition{Phase::kFinishing, Phase::kSavingCopies, "a server is lost, and there are copies"},
    Transition{Phase::kFinishing, Phase::kDisconnecting, "all is measured and saved, or cannot be"},
    Transition{Phase::kFinishing, Phase::kWentBack, "a server is lost"},
    Transition{Phase::kDisconnecting, Phase::kOver, "all are gone, or had 5 s for it"},
};

}  // namespace

std::span<const Transition> transitions() { return kTransitions; }

bool may_follow(Phase from, Phase to) {
  return std::any_of(kTransitions.begin(), kTransitions.end(),
                     [&](const Transition& one) { return one.from == from && one.to == to; });
}

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
  std::string text = "stateDiagram-v2\n  [*] --> starting\n";
  for (const Transition& one : kTransitions)
    text += fmt::format("  {} --> {}: {}\n", name_of(one.from), name_of(one.to), one.when);
  return text + "  went_back --> [*]\n  over --> [*]\n";
}

}  // namespace paceline::coordinator
