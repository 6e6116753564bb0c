// Which slot of the servers' boards each process reads the weights through: the evaluator, then the workers;
// the highest are the other hosts' servers' (exchange::Exchange).
#pragma once

#include "paceline/decisions/coordinator/worker_table.h"

namespace paceline::coordinator {

// The number of slots that memory::WeightWriter has; a test compares.
inline constexpr int kReaderSlots = 1024;
inline constexpr int kEvaluatorSlot = 0;

inline int reader_slot(const Worker& worker) { return kEvaluatorSlot + 1 + worker.reader; }

}  // namespace paceline::coordinator
