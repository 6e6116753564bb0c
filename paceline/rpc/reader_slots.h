// Which slot of the servers' boards each process reads the weights through.
#pragma once

#include "paceline/rpc/worker_table.h"
#include "paceline/transport/weight_board.h"

namespace paceline::rpc {

inline constexpr int kEvaluatorSlot = 0;

inline int reader_slot(const Worker& worker) {
  return kEvaluatorSlot + 1 + worker.number % (transport::WeightWriter::kSlots - 1);
}

}  // namespace paceline::rpc
